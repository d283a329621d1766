import { describe, expect, it } from 'vitest';
import type { Linked, Queue, Waiter } from '../../operators/kernel/index.js';
import { Chain, FIFO } from '../../operators/kernel/index.js';

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
