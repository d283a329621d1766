import { config } from 'rxjs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { childOf, createLimiter } from '../../operators/index.js';
import type { Bidder } from '../../operators/options/permits.js';
import type { Drained } from '../../operators/options/types.js';

const reported: unknown[] = [];

beforeEach(() => {
  reported.length = 0;
  config.onUnhandledError = (error) => reported.push(error);
});
afterEach(() => {
  config.onUnhandledError = null;
});

const fault = new Error('of the bidder');
const throwing: Bidder = {
  granted: () => {
    throw fault;
  },
  refused: () => {
    throw fault;
  },
};

/** An answer that must come at once. */
async function now<A>(answer: Promise<A>): Promise<A | 'never'> {
  return Promise.race([answer, new Promise<'never'>((resolve) => setTimeout(resolve, 20, 'never'))]);
}

it('a bidder that throws when it is granted does not take the answer of the work that has freed its slot', async () => {
  const limiter = createLimiter({ concurrency: 1 });
  let end: (value: string) => void = () => undefined;
  const answer = limiter.runAsync(() => new Promise<string>((resolve) => (end = resolve)));
  limiter.enlist(throwing);
  end('done');
  expect(await now(answer)).toBe('done');
  await now(new Promise(() => undefined));
  expect(reported).toEqual([fault]);
});

it('a bidder that throws when it is refused keeps no limiter from closing', async () => {
  const limiter = createLimiter({ concurrency: 1 });
  const lease = limiter.tryAcquire();
  limiter.enlist(throwing);
  const other = limiter.acquireAsync().catch((error: unknown) => (error as { readonly code: string }).code);
  const drained: Promise<Drained> = limiter.drain();
  limiter.close();
  expect(await now(other)).toBe('FLOW_CLOSED');
  expect(await now(drained)).toEqual({ done: 0, aborted: 1, dropped: 2 });
  lease?.release();
  await now(new Promise(() => undefined));
  expect(reported).toEqual([fault]);
});

it('a bidder that throws when a lease of a child comes to it lets that be given back above as well', async () => {
  const parent = createLimiter({ concurrency: 2 });
  const child = childOf(parent, { concurrency: 1 });
  const lease = child.tryAcquire();
  child.enlist(throwing);
  lease?.release();
  expect([child.executing, parent.executing]).toEqual([1, 1]);
  await now(new Promise(() => undefined));
  expect(reported).toEqual([fault]);
});

it('a bidder that throws does not throw at the code that makes a place for it', async () => {
  const limiter = createLimiter({ concurrency: 1 });
  expect(() => limiter.enlist(throwing)).not.toThrow();
  limiter.close();
  expect(() => limiter.enlist(throwing)).not.toThrow();
  await now(new Promise(() => undefined));
  expect(reported).toEqual([fault, fault]);
});
