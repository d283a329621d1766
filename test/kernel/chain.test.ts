import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Linked } from '../../operators/kernel/index.js';
import { BatchMachine, Chain, FIFO, Job } from '../../operators/kernel/index.js';

class Member implements Linked<Member> {
  previous: Member | undefined = undefined;
  next: Member | undefined = undefined;

  constructor(readonly name: string) {}
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
});
