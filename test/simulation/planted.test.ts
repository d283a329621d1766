import { describe, expect, it } from 'vitest';
import type { Mutation } from './mutate.js';
import { mutate } from './mutate.js';
import { runSeeds } from './run-seeds.js';

/** Seeds within which every planted bug must be found. */
const SEEDS = Array.from({ length: 150 }, (_, i) => i + 1);

interface Bug extends Mutation {
  readonly name: string;
  /** What the simulation must say of it. */
  readonly says: RegExp;
}

const ENGINE = 'support/batch-engine.ts';
const QUEUE = 'support/batch-queue.ts';
const LIMITER = 'support/limiter.ts';
const BATCHER = 'create-batcher.ts';

const BUGS: readonly Bug[] = [
  {
    name: 'a permit lost after a failure',
    file: ENGINE,
    from: 'if (!call.abort.aborted) this.#spent',
    to: "if (!call.abort.aborted && outcome === 'ok') this.#spent",
    says: /never settled|never ended|leases/,
  },
  {
    name: 'an item settled twice',
    file: ENGINE,
    from: 'this.#outbox.push(job);',
    to: 'this.#outbox.push(job); this.#outbox.push(job);',
    says: /settled again/,
  },
  {
    name: 'results shifted by one',
    file: 'support/stitch.ts',
    from: 'const entry = list[i];',
    to: 'const entry = list[(i + 1) % size];',
    says: /item \d+ got /,
  },
  {
    name: 'a forgotten abort',
    file: 'support/abort.ts',
    from: 'this.#controller?.abort(abortReason());',
    to: '',
    says: /its signal fired 0 times/,
  },
  { name: 'a timer left after unsubscribing', file: ENGINE, from: 'this.#alarm.clear();', to: '', says: /left 1 timer\(s\)/ },
  {
    name: 'a retry of a fatal error',
    file: ENGINE,
    from: "verdict.class === 'timeout'",
    to: "verdict.class === 'timeout' || verdict.class === 'fatal'",
    says: /after something final/,
  },
  {
    name: 'a batch split because of a 429',
    file: ENGINE,
    from: "(verdict.class === 'itemFault' ||",
    to: "(verdict.class === 'throttled' || verdict.class === 'itemFault' ||",
    says: /which is not its retry/,
  },
  {
    name: 'the neighbour of a blamed item rejected',
    file: 'kernel/divide-plan.ts',
    from: 'const seen = new Set(blame);',
    to: 'const seen = new Set(blame.map((i) => (i + 1) % size));',
    says: /was not blamed/,
  },
  {
    name: 'a deadline ignored',
    file: ENGINE,
    from: 'lane, weight, now, now + waitMs, name',
    to: 'lane, weight, now, Infinity, name',
    says: /ms after its deadline/,
  },
  {
    name: 'an item dropped on re-entrancy',
    file: ENGINE,
    from: 'if (job.state !== NEW || this.#over) return;',
    to: 'if (job.state !== NEW || this.#over || this.#busy) return;',
    says: /never settled|was lost/,
  },
  {
    name: 'a place in the limiter kept after unsubscribing',
    file: ENGINE,
    from: 'place?.withdraw();',
    to: '',
    says: /the limiter (still )?counts \d+ waiting/,
  },
  {
    name: 'a group lost after its backoff',
    file: QUEUE,
    from: 'this.#ready(this.#backoff.pop() as Group<T, R>);',
    to: 'this.#backoff.pop();',
    says: /never settled|never ended/,
  },
  {
    name: 'a refund forgotten',
    file: LIMITER,
    from: "if (outcome === 'unused') {",
    to: "if (outcome === 'never') {",
    says: /the limiter has .* left/,
  },
  {
    name: 'completion before the last result',
    file: ENGINE,
    from: 'this.#queue.queued === 0 && this.#calls.size === 0',
    to: 'this.#queue.queued === 0',
    says: /completed without it/,
  },
  {
    name: "a listener left on a user's signal",
    file: 'support/abort.ts',
    from: "signal.removeEventListener('abort', listener);",
    to: '',
    says: /abort listener\(s\) left/,
  },
  {
    name: 'one permit too many',
    file: LIMITER,
    from: "if (this.#executing >= this.#limits.concurrency) return 'concurrency';",
    to: "if (this.#executing > this.#limits.concurrency) return 'concurrency';",
    says: /under a limit of|above the limit/,
  },
  { name: 'a pause ignored', file: LIMITER, from: "if (now < this.#pausedUntil) return 'pause';", to: '', says: /was told to wait/ },
  {
    name: 'savings kept when the rate falls',
    file: 'kernel/token-bucket.ts',
    from: 'this.#level = Math.min(this.#level, capacity);',
    to: '',
    says: /the limiter has .* left/,
  },
  {
    name: 'a load forgotten that shares an item',
    file: BATCHER,
    from: 'if (others) for (const waiter of others) settleWaiter(waiter, job);',
    to: '',
    says: /never settled/,
  },
  {
    name: 'an urgent load that does not hurry its item',
    file: ENGINE,
    from: 'this.#enqueue(moved);',
    to: 'this.#enqueue(Object.assign(moved, { lane: job.lane }));',
    says: /have overtaken/,
  },
];

describe('planted bugs', () => {
  it('finds nothing in the operators as they are', { timeout: 120_000 }, async () => {
    const tally = await runSeeds(SEEDS, await mutate(undefined));
    expect(tally).toMatchObject({ schedules: SEEDS.length, failure: undefined });
  });

  it.each(BUGS)('finds $name', { timeout: 120_000 }, async ({ says, ...mutation }) => {
    const { failure } = await runSeeds(SEEDS, await mutate(mutation));
    expect(failure).toMatch(says);
  });

  it('does not plant a bug where the source has changed', async () => {
    await expect(mutate({ file: ENGINE, from: 'this.#nowhere', to: '' })).rejects.toThrow(
      'expected operators/support/batch-engine.ts to contain `this.#nowhere` once, found it 0 times',
    );
    await expect(mutate({ file: ENGINE, from: 'this.#run();', to: '' })).rejects.toThrow('times');
  });
});
