import type { Mutation } from '../world/bundle.js';

interface Bug extends Mutation {
  readonly name: string;
}

const ENGINE = 'support/batching/batch-engine.ts';
const GATE = 'support/batching/batch-gate.ts';
const OUTBOX = 'support/batching/batch-outbox.ts';
const SEARCH = 'kernel/bad-item-search.ts';
const QUEUE = 'support/batching/batch-queue.ts';
const CAPACITY = 'support/limiting/limiter-capacity.ts';
const LOAD = 'support/batching/load.ts';

/** Bugs that the schedules must find. One whose text is not in the source any more has to be planted anew. */
export const BUGS: readonly Bug[] = [
  {
    name: 'an item settled twice',
    file: OUTBOX,
    from: 'this.#config.failFast)) this.#ready.push(job);',
    to: 'this.#config.failFast)) this.#ready.push(job), this.#ready.push(job);',
  },
  {
    name: 'results shifted by one',
    file: 'support/batching/stitch.ts',
    from: ': (list as readonly R[]);',
    to: ': ([...list.slice(1), list[0]] as R[]);',
  },
  {
    name: 'a forgotten abort',
    file: 'support/abort.ts',
    from: 'this.#controller?.abort(abortReason());',
    to: '',
  },
  { name: 'a timer left after unsubscribing', file: ENGINE, from: 'this.#alarm.clear();', to: '' },
  {
    name: 'a retry of a fatal error',
    file: 'support/retry.ts',
    from: "verdict.class === 'timeout'",
    to: "verdict.class === 'timeout' || verdict.class === 'fatal'",
  },
  {
    name: 'an item dropped on re-entrancy',
    file: ENGINE,
    from: 'if (job.state === ACCEPTED && !this.#over) {',
    to: 'if (job.state === ACCEPTED && !this.#over && !this.#busy) {',
  },
  {
    name: 'a place in the limiter kept after unsubscribing',
    file: GATE,
    from: 'place?.withdraw();',
    to: '',
  },
  {
    name: 'a group lost after its backoff',
    file: QUEUE,
    from: 'this.#ready(this.#backoff.pop() as Group<T, R>);',
    to: 'this.#backoff.pop();',
  },
  {
    name: "a listener left on a user's signal",
    file: 'support/abort.ts',
    from: "signal.removeEventListener('abort', listener);",
    to: '',
  },
  {
    name: 'one permit too many',
    file: CAPACITY,
    from: "if (this.#executing >= this.#limits.concurrency) return 'concurrency';",
    to: "if (this.#executing > this.#limits.concurrency) return 'concurrency';",
  },
  {
    name: 'savings kept when the rate falls',
    file: 'kernel/token-bucket.ts',
    from: 'this.#level = Math.min(this.#level, capacity);',
    to: '',
  },
  {
    name: 'a load forgotten that shares an item',
    file: LOAD,
    from: 'for (const load of loads) load.end(this);',
    to: 'for (const load of [...loads].slice(0, 1)) load.end(this);',
  },
  {
    name: 'an order of results that is not kept',
    file: OUTBOX,
    from: 'if (job.place === undefined ||',
    to: 'if (true ||',
  },
  {
    name: 'results held back for an item that has left',
    file: 'kernel/reorder-buffer.ts',
    from: "this.#close(place, 'left', false);",
    to: 'void place;',
  },
  {
    name: 'a part of an item left behind',
    file: OUTBOX,
    from: 'if (--whole.missing > 0 ||',
    to: 'if (--whole.missing > 1 ||',
  },
  {
    name: 'parts that go on after their item was rejected',
    file: OUTBOX,
    from: 'for (const part of whole.parts) this.#orphans.push(part);',
    to: '',
  },
  {
    name: 'the half that was sent taken for the one that was not',
    file: SEARCH,
    from: 'this.#suspects = suspects.slice(half);',
    to: 'this.#suspects = suspects.slice(0, half);',
  },
  {
    name: 'what a search has put aside forgotten',
    file: SEARCH,
    from: 'untold(spent: SearchSpent): SearchStep<T> {\n    this.#rest = this.held;',
    to: 'untold(spent: SearchSpent): SearchStep<T> {',
  },
  {
    name: 'a permit lost after a failure',
    file: 'support/batching/batch-calls.ts',
    from: 'if (!call.isStopped) this.#spent',
    to: "if (!call.isStopped && outcome === 'ok') this.#spent",
  },
  {
    name: 'completion before the last result',
    file: 'support/batching/batch-engine.ts',
    from: 'this.#queue.queued + this.#calls.size + this.#entering > 0',
    to: 'this.#queue.queued + this.#entering > 0',
  },
  {
    name: 'a pause ignored',
    file: 'support/limiting/limiter-rates.ts',
    from: "if (now < this.#heldUntil) return 'pause';",
    to: '',
  },
  {
    name: 'a batch split because of a 429',
    file: 'support/batching/batch-repair.ts',
    from: "(verdict.class === 'itemFault' ||",
    to: "(verdict.class === 'throttled' || verdict.class === 'itemFault' ||",
  },
  {
    name: 'the neighbour of a blamed item rejected',
    file: 'kernel/divide-plan.ts',
    from: 'const seen = new Set(blame);',
    to: 'const seen = new Set(blame.map((i) => (i + 1) % size));',
  },
  {
    name: 'a deadline ignored',
    file: 'support/batching/batch-intake.ts',
    from: 'job.deadlineAt = acceptedAt + waitMs;',
    to: '',
  },
  {
    name: 'a refund forgotten',
    file: 'support/limiting/limiter-pump.ts',
    from: "if (outcome === 'unused')",
    to: "if (outcome === 'never')",
  },
  {
    name: 'a boundary that is crossed',
    file: 'support/batching/batch-queue.ts',
    from: 'if (job.stretch !== head.stretch)',
    to: 'if (job.stretch < head.stretch)',
  },
];
