import { vi } from 'vitest';

/** A wait without a clock: so many turns of the promise queue. */
export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await Promise.resolve();
}

/** Runs with host timers and the clock standing still until `pass` is called: virtual time for code made of promises. */
export async function hostTime<R>(run: (pass: (ms: number) => Promise<void>) => Promise<R>): Promise<R> {
  vi.useFakeTimers({ now: 0 });
  try {
    return await run(async (ms) => {
      await vi.advanceTimersByTimeAsync(ms);
    });
  } finally {
    vi.useRealTimers();
  }
}

/** `setTimeout` as a promise. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** A promise and its two ends. */
export function deferred<R>() {
  let resolve: (value: R) => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<R>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** What has become of a promise so far, asked after some turns of the promise queue. */
export async function stateOf(promise: Promise<unknown>): Promise<'pending' | 'fulfilled' | 'rejected'> {
  let state: 'pending' | 'fulfilled' | 'rejected' = 'pending';
  promise.then(
    () => (state = 'fulfilled'),
    () => (state = 'rejected'),
  );
  await turns(20);
  return state;
}

/** How many array elements `shift` and `splice` have to move while `run` runs: the cost of a queue kept in an array, without a clock. */
export function elementsMoved(run: () => void): number {
  let moved = 0;
  const { shift, splice } = Array.prototype;
  Array.prototype.shift = function (this: unknown[]) {
    moved += this.length;
    return shift.call(this) as unknown;
  };
  Array.prototype.splice = function (this: unknown[], ...args: [number, number, ...unknown[]]) {
    moved += this.length - args[0];
    return splice.apply(this, args) as unknown[];
  };
  try {
    run();
    return moved;
  } finally {
    Object.assign(Array.prototype, { shift, splice });
  }
}

/** Numbers between 0 and 1 that look random and are the same each time. */
export function repeatable(seed = 1): () => number {
  let state = seed;
  return () => {
    state = (state * 16_807) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** From 0 to count - 1. */
export function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}
