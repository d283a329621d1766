import fastq from 'fastq';
import { createIntake } from '../../operators/create-intake.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

const BOUND = 16;

/** The least anybody could do: an array, and two lists of those who wait. */
async function byHand(n: number): Promise<number> {
  const inside: number[] = [];
  const producers: (() => void)[] = [];
  const consumers: (() => void)[] = [];
  const produce = async (): Promise<void> => {
    for (let i = 0; i < n; i++) {
      if (inside.length >= BOUND) await new Promise<void>((resolve) => producers.push(resolve));
      inside.push(i);
      consumers.shift()?.();
    }
  };
  const producing = produce();
  let taken = 0;
  while (taken < n) {
    if (inside.length === 0) await new Promise<void>((resolve) => consumers.push(resolve));
    inside.shift();
    taken++;
    producers.shift()?.();
    await Promise.resolve();
  }
  await producing;
  return taken;
}

async function throughIntake(n: number): Promise<number> {
  const intake = createIntake<number>({ maxQueued: BOUND });
  const produce = async (): Promise<void> => {
    for (let i = 0; i < n; i++) await intake.offer(i);
    await intake.drain();
  };
  const producing = produce();
  let taken = 0;
  for await (const _ of intake) taken++;
  await producing;
  return taken;
}

/** A pool of one worker whose `drained` makes the producer wait: bounded in chunks of 16. */
async function throughFastq(n: number): Promise<number> {
  let taken = 0;
  const queue = fastq.promise(async () => {
    taken++;
    await Promise.resolve();
  }, 1);
  for (let i = 0; i < n; i++) {
    void queue.push(i);
    if (queue.length() >= BOUND) await queue.drained();
  }
  await queue.drained();
  return taken;
}

function handed(n: number): Case {
  return {
    name: `one producer, one consumer, ${String(BOUND)} items inside, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': async () => {
        assertCount('by hand', await byHand(n), n);
      },
      'sluice createIntake': async () => {
        assertCount('createIntake', await throughIntake(n), n);
      },
      'fastq, awaiting drained': async () => {
        assertCount('fastq', await throughFastq(n), n);
      },
    },
  };
}

/** All of them wait at once, then are let in one by one. */
function waiting(n: number): Case {
  return {
    name: `${n.toLocaleString('en')} producers waiting at once`,
    n,
    contestants: {
      'by hand': async () => {
        const resolvers: ((isIn: boolean) => void)[] = [];
        const offers = Array.from({ length: n }, () => new Promise<boolean>((resolve) => resolvers.push(resolve)));
        for (const resolve of resolvers) {
          resolve(true);
          await Promise.resolve();
        }
        assertCount('by hand', (await Promise.all(offers)).length, n);
      },
      'sluice createIntake': async () => {
        const intake = createIntake<number>({ maxQueued: 1, maxWaiting: Infinity });
        const offers = Array.from({ length: n }, (_, i) => intake.offer(i));
        const reader = intake[Symbol.asyncIterator]();
        let taken = 0;
        while (taken < n) if (!(await reader.next()).done) taken++;
        assertCount('createIntake', (await Promise.all(offers)).length, n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => handed(1e5), () => waiting(1e5)];
