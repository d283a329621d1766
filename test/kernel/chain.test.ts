import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Linked, Queue, Waiter } from '../../operators/kernel/index.js';
import { BatchMachine, Chain, FIFO, Job } from '../../operators/kernel/index.js';
import { heapBytes } from './garbage.js';

class Member implements Linked<Member> {
  previous: Member | undefined = undefined;
  next: Member | undefined = undefined;

  constructor(readonly name: string) {}
}

class Waiting implements Waiter<Waiting> {
  previous: Waiting | undefined = undefined;
  next: Waiting | undefined = undefined;
  readonly lane = 0;
  readonly weight = 1;

  constructor(readonly input: number) {}
}

type Line = Queue<Waiting>;

function inputs(line: Line): number[] {
  const all: number[] = [];
  line.each(0, ({ input }) => all.push(input) > 0);
  const head = line.head(0);
  return head && line.isReturned(0) ? [head.input, ...all] : all;
}

function names(chain: Chain<Member>): string {
  let all = '';
  for (let member = chain.first; member; member = member.next) all += member.name;
  return all;
}

describe('Chain', () => {
  it('keeps its members in the order of adding, whichever of them leaves', () => {
    for (const leaver of [0, 1, 2]) {
      const chain = new Chain<Member>();
      const members = ['a', 'b', 'c'].map((name) => new Member(name));
      for (const member of members) chain.push(member);
      expect([names(chain), chain.size]).toEqual(['abc', 3]);
      const member = members[leaver] as Member;
      chain.remove(member);
      expect([names(chain), chain.size]).toEqual(['abc'.replace(member.name, ''), 2]);
      expect([member.previous, member.next]).toEqual([undefined, undefined]);
      chain.push(member);
      expect([names(chain), chain.size]).toEqual(['abc'.replace(member.name, '') + member.name, 3]);
    }
  });

  it('is empty when the last has left, and can be used again', () => {
    const chain = new Chain<Member>();
    const member = new Member('a');
    chain.push(member);
    chain.remove(member);
    expect([chain.first, chain.size]).toEqual([undefined, 0]);
    chain.push(member);
    expect(names(chain)).toBe('a');
  });
});

describe('a line', () => {
  it('lets go of a batch behind what came back, and of nothing when nothing is taken', () => {
    const line: Line = FIFO.create(Infinity);
    const [back, ...fresh] = Array.from({ length: 5 }, (_, input) => new Waiting(input));
    for (const job of fresh) line.push(job);
    line.pushReturned(back as Waiting);
    line.takeAll([]);
    expect(inputs(line)).toEqual([0, 1, 2, 3, 4]);
    line.takeAll(fresh.slice(0, 2));
    expect([inputs(line), line.size]).toEqual([[0, 3, 4], 3]);
    expect(fresh.slice(0, 2).map(({ previous, next }) => [previous, next])).toEqual([
      [undefined, undefined],
      [undefined, undefined],
    ]);
    line.takeAll(fresh.slice(2));
    expect([inputs(line), line.newest(0), line.takeHead(0, 1), inputs(line)]).toEqual([[0], undefined, back, []]);
    for (const job of fresh.slice(2)) line.push(job);
    line.takeAll(fresh.slice(2, 3));
    expect([inputs(line), line.oldest(0)?.previous]).toEqual([[4], undefined]);
  });
});

describe('Backlog', () => {
  const unused = (): never => {
    throw new Error('not asked for');
  };
  // What a machine has for its owner.
  const backlog = () =>
    new BatchMachine<number, number>(
      {
        maxSize: 1,
        maxWeight: 1,
        maxQueued: Infinity,
        overflow: 'error',
        queue: FIFO,
        order: undefined,
        random: unused,
        repair: [],
        timeoutMs: Infinity,
        classify: unused,
      },
      { operator: 'test', tell: undefined, deadlineError: unused, overflowError: unused, pause: unused, stop: unused },
    ).results;

  it('hands out in order, as a list does', () => {
    const steps = fc.array(fc.constantFrom('push', 'push', 'shift', 'shift', 'clear'), { maxLength: 60, size: 'max' });
    fc.assert(
      fc.property(steps, (script) => {
        const lost = backlog();
        const list: object[] = [];
        script.forEach((step, index) => {
          if (step === 'push') {
            const item = new Job<number, number>(index);
            lost.push(item);
            list.push(item);
          } else if (step === 'shift') {
            expect(lost.shift()).toBe(list.shift());
          } else if (index % 4 === 0) {
            lost.clear();
            list.length = 0;
          }
          expect(lost.length).toBe(list.length);
        });
      }),
      { numRuns: 50 },
    );
  });

  it('stays in order, however long it was and however much of it was taken', () => {
    const lost = backlog();
    const list: object[] = [];
    let input = 0;
    for (const [pushed, taken] of [
      [5000, 3000],
      [3000, 2600],
      [1, 2401],
      [1024, 1024],
      [1025, 1025],
      [3, 3],
    ] as const) {
      for (let n = 0; n < pushed; n++) {
        const item = new Job<number, number>(input++);
        lost.push(item);
        list.push(item);
      }
      const out = Array.from({ length: taken }, () => lost.shift());
      expect(out).toEqual(list.splice(0, taken));
      expect(lost.length).toBe(list.length);
    }
    expect(lost.shift()).toBeUndefined();
  });

  it('gives back the places of many when they were taken', () => {
    const lost = backlog();
    const item = new Job<number, number>(0);
    const before = heapBytes();
    for (let n = 0; n < 300_000; n++) lost.push(item);
    while (lost.length > 0) lost.shift();
    expect(heapBytes() - before).toBeLessThan(1_000_000);
    lost.push(item);
    expect(lost.shift()).toBe(item);
  });
});
