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

const ENGINE = 'support/batching/batch-engine.ts';
const CALLS = 'support/batching/batch-calls.ts';
const GATE = 'support/batching/batch-gate.ts';
const INTAKE = 'support/batching/batch-intake.ts';
const OUTBOX = 'support/batching/batch-outbox.ts';
const REPAIR = 'support/batching/batch-repair.ts';
const SEARCH = 'kernel/bad-item-search.ts';
const QUEUE = 'support/batching/batch-queue.ts';
const LIMITER = 'support/limiting/limiter-pump.ts';
const CAPACITY = 'support/limiting/limiter-capacity.ts';
const LOAD = 'support/batching/load.ts';

const BUGS: readonly Bug[] = [
  {
    name: 'a permit lost after a failure',
    file: CALLS,
    from: 'if (!call.isStopped) this.#spent',
    to: "if (!call.isStopped && outcome === 'ok') this.#spent",
    says: /never settled|never ended|leases/,
  },
  {
    name: 'an item settled twice',
    file: OUTBOX,
    from: 'this.#config.failFast)) this.#ready.push(job);',
    to: 'this.#config.failFast)) this.#ready.push(job), this.#ready.push(job);',
    says: /settled again/,
  },
  {
    name: 'results shifted by one',
    file: 'support/batching/stitch.ts',
    from: ': (list as readonly R[]);',
    to: ': ([...list.slice(1), list[0]] as R[]);',
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
    file: 'support/retry.ts',
    from: "verdict.class === 'timeout'",
    to: "verdict.class === 'timeout' || verdict.class === 'fatal'",
    says: /after something final/,
  },
  {
    name: 'a batch split because of a 429',
    file: REPAIR,
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
    file: INTAKE,
    from: 'job.deadlineAt = acceptedAt + waitMs;',
    to: '',
    says: /ms after its deadline/,
  },
  {
    name: 'an item dropped on re-entrancy',
    file: ENGINE,
    from: 'if (job.state === ACCEPTED && !this.#over) {',
    to: 'if (job.state === ACCEPTED && !this.#over && !this.#busy) {',
    says: /never settled|was lost|is pulled when/,
  },
  {
    name: 'a place in the limiter kept after unsubscribing',
    file: GATE,
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
    from: "if (outcome === 'unused')",
    to: "if (outcome === 'never')",
    says: /the limiter has .* left/,
  },
  {
    name: 'completion before the last result',
    file: ENGINE,
    from: 'this.#queue.queued + this.#calls.size + this.#entering > 0',
    to: 'this.#queue.queued + this.#entering > 0',
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
    file: CAPACITY,
    from: "if (this.#executing >= this.#limits.concurrency) return 'concurrency';",
    to: "if (this.#executing > this.#limits.concurrency) return 'concurrency';",
    says: /under a limit of|above the limit/,
  },
  {
    name: 'a pause ignored',
    file: 'support/limiting/limiter-rates.ts',
    from: "if (now < this.#heldUntil) return 'pause';",
    to: '',
    says: /was told to wait/,
  },
  {
    name: 'savings kept when the rate falls',
    file: 'kernel/token-bucket.ts',
    from: 'this.#level = Math.min(this.#level, capacity);',
    to: '',
    says: /the limiter has .* left/,
  },
  {
    name: 'a load forgotten that shares an item',
    file: LOAD,
    from: 'for (const load of loads) load.end(this);',
    to: 'for (const load of [...loads].slice(0, 1)) load.end(this);',
    says: /never settled/,
  },
  {
    name: 'an urgent load that does not hurry its item',
    file: INTAKE,
    from: 'lane >= job.lane) return;',
    to: 'lane <= job.lane) return;',
    says: /have overtaken|crosses a boundary/,
  },
  {
    name: 'an order of results that is not kept',
    file: OUTBOX,
    from: 'if (job.place === undefined ||',
    to: 'if (true ||',
    says: /went out after a later one/,
  },
  {
    name: 'results held back for an item that has left',
    file: 'kernel/reorder-buffer.ts',
    from: "this.#close(place, 'left', false);",
    to: 'void place;',
    says: /never settled|held back/,
  },
  {
    name: 'a boundary that is crossed',
    file: QUEUE,
    from: 'if (job.stretch !== head.stretch)',
    to: 'if (job.stretch < head.stretch)',
    says: /crosses a boundary/,
  },
  {
    name: 'a part of an item left behind',
    file: OUTBOX,
    from: 'if (--whole.missing > 0 ||',
    to: 'if (--whole.missing > 1 ||',
    says: /item \d+ got /,
  },
  {
    name: 'parts that go on after their item was rejected',
    file: OUTBOX,
    from: 'for (const part of whole.parts) this.#orphans.push(part);',
    to: '',
    says: /which was gone by then|went on for/,
  },
  {
    name: 'a failure that does not end the stream',
    file: 'support/batching/batch-stream.ts',
    from: 'if (job.failed && config.engine.failFast)',
    to: 'if (false as boolean)',
    says: /though the first failure ends the stream/,
  },
  {
    name: 'the half that was sent taken for the one that was not',
    file: SEARCH,
    from: 'this.#suspects = suspects.slice(half);',
    to: 'this.#suspects = suspects.slice(0, half);',
    says: /is empty|never settled/,
  },
  {
    name: 'an item called bad by inference alone',
    file: SEARCH,
    from: 'this.#isSure && !confirm',
    to: 'this.#isSure',
    says: /was in no call that ended then/,
  },
  {
    name: 'what a search has put aside forgotten',
    file: SEARCH,
    from: 'untold(spent: SearchSpent): SearchStep<T> {\n    this.#rest = this.held;',
    to: 'untold(spent: SearchSpent): SearchStep<T> {',
    says: /never settled|was lost/,
  },
  {
    name: 'a search that goes on when its budget is spent',
    file: REPAIR,
    from: 'root.calls++;',
    to: '',
    says: /its budget is/,
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
      'expected operators/support/batching/batch-engine.ts to contain `this.#nowhere` once, found it 0 times',
    );
    await expect(mutate({ file: ENGINE, from: 'this.#run();', to: '' })).rejects.toThrow('times');
  });
});
