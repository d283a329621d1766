import type { Observable } from 'rxjs';
import { concat, defer, EMPTY, expand, map, mergeMap, NEVER, of, takeLast, tap, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { VirtualClock } from '../../marbles/virtual.js';
import { virtualTime } from '../../marbles/virtual.js';
import { createLimiter, isFlowError, tokenBucket } from '../../operators/index.js';
import { FlowModel } from '../../src/inspector/flow-model.js';
import type { AnyStage, BatchRules, ItemResult, JournalEntry, StageResult } from '../../src/pipelines/create-stages.js';
import { createStages } from '../../src/pipelines/create-stages.js';
import { sized } from '../support/deep.js';
import { repeatable } from '../traps/tools.js';

/** What happened in all worlds, for them to be worth looking at. */
const NOTHING = {
  calls: 0,
  faults: 0,
  retries: 0,
  timeouts: 0,
  late: 0,
  siblings: 0,
  closed: 0,
  left: 0,
  drained: 0,
  recalled: 0,
  partial: 0,
  whole: 0,
};
type Tally = { -readonly [K in keyof typeof NOTHING]: number };

/** What is wrong on purpose: a result that is missing, one that comes twice, one that is another's. */
type Plant = 'none' | 'lost' | 'doubled' | 'swapped';

/** A request that is under way. */
interface Call {
  readonly document: string;
  readonly stage: number;
}

/** One seeded pipeline, its faults, its timeouts, and how it ends. Answers what was wrong. */
function world(seed: number, plant: Plant, tally: Tally): string[] {
  const wrong: string[] = [];
  virtualTime((clock) => {
    new World(seed, plant, tally, wrong, clock).run();
  });
  return wrong;
}

class World {
  readonly #random: () => number;
  readonly #documents: number;
  readonly #requests: number;
  readonly #rules: readonly {
    concurrency: number;
    scope: 'shared' | 'perBatch';
    expands: boolean;
    allowPartialFailure: boolean;
    steps: number;
  }[];
  readonly #under = new Set<Call>();
  readonly #over = new Set<string>();
  readonly #items = new Map<string, ItemResult<unknown>[]>();
  readonly #journal = new Map<string, JournalEntry[]>();
  readonly #known = new Set<string>();
  /** Requests at a time; without a limiter any number. */
  #most = Infinity;
  #reading = 0;
  #isLeft = false;

  constructor(
    seed: number,
    private readonly plant: Plant,
    private readonly tally: Tally,
    private readonly wrong: string[],
    private readonly clock: VirtualClock,
  ) {
    this.#random = repeatable(seed);
    this.#documents = 1 + this.#draw(3);
    this.#requests = 1 + this.#draw(5);
    this.#rules = Array.from({ length: 1 + this.#draw(3) }, () => ({
      concurrency: this.#flip(0.3) ? Infinity : 1 + this.#draw(3),
      scope: this.#flip(0.5) ? 'shared' : 'perBatch',
      expands: this.#flip(0.4),
      allowPartialFailure: this.#flip(0.5),
      steps: this.#flip(0.3) ? 1 + this.#draw(3) : 0,
    }));
  }

  run(): void {
    this.#once();
    // Again over the same journal: what it knows is not asked for a second time.
    if (!this.#flip(0.4)) return;
    for (const entries of this.#journal.values())
      for (const { documentId, item, stage } of entries) this.#known.add(`${documentId} ${item} ${stage}`);
    if (this.#known.size > 0) this.tally.recalled++;
    this.#over.clear();
    this.#items.clear();
    this.#reading = 0;
    this.#isLeft = false;
    this.#once();
  }

  #once(): void {
    const { scheduler, flush, advance } = this.clock;
    const rates = this.#flip(0.5) ? [tokenBucket({ unit: 'requests', amount: 20, windowMs: 1000, burst: 1 + this.#draw(5) })] : [];
    const limiter = createLimiter({ concurrency: this.#requests, rates, headroom: 1, scheduler });
    const model = new FlowModel();
    const inProgress = new Set<string>();
    const scheduling = (['fair', 'priority', 'roundRobin'] as const)[this.#draw(3)] as NonNullable<BatchRules<string>['scheduling']>;
    const isLimited = this.#flip(0.8);
    this.#most = isLimited ? this.#requests : Infinity;
    const batches = {
      concurrency: this.#documents,
      scheduling,
      ...(scheduling === 'priority' && { priority: (id: string) => Number(id) % 3, maxQueued: this.#draw(3) }),
    };
    const stages = createStages(
      this.#rules.map((_, i) => this.#stage(i)),
      {
        ...(isLimited && { limiter }),
        batches,
        journal: {
          recall: (id) => this.#journal.get(id) ?? [],
          append: (entry) => {
            this.#journal.set(entry.documentId, [...(this.#journal.get(entry.documentId) ?? []), entry]);
          },
        },
        id: (id: string) => id,
        onEvent: (event) => {
          model.add(event);
          if (event.type === 'retryScheduled') this.tally.retries++;
          if (event.type === 'documentStarted') inProgress.add(event.batchId ?? '');
          if (event.type === 'documentEnded' && !inProgress.delete(event.batchId ?? ''))
            this.#fault('a document ends that is not in progress');
          if (inProgress.size > this.#documents) this.#fault('too many documents are told of');
        },
        scheduler,
        random: this.#random,
      },
    );
    let isComplete = false as boolean;
    const count = 1 + this.#draw(6);
    const running = stages.run(this.#read(count)).subscribe({
      next: (result) => {
        for (const planted of this.#plants(result)) this.#heard(planted);
      },
      error: (error: unknown) => {
        this.#fault(`errored: ${String(error)}`);
      },
      complete: () => {
        isComplete = true;
      },
    });
    const end = this.#draw(8);
    advance(this.#draw(1500));
    if (end === 0 && !isComplete) {
      this.#isLeft = true;
      this.tally.left++;
      running.unsubscribe();
    } else if (end === 1) {
      if (!isComplete) this.tally.closed++;
      stages.close();
    } else if (end === 2) {
      this.tally.drained++;
      void stages.drain();
    } else if (end === 3) {
      limiter.pause();
      advance(500);
      limiter.resume();
    }
    flush();
    if (!this.#isLeft && !isComplete) this.#fault('did not complete');
    if (!this.#isLeft && end !== 1 && end !== 2 && this.#over.size !== count)
      this.#fault(`${String(this.#over.size)} of ${String(count)} documents are over`);
    if (!this.#isLeft && this.#over.size !== this.#reading) this.#fault('a document that was read has no result');
    if (this.#under.size > 0) this.#fault('a call is under way');
    if (inProgress.size > 0) this.#fault('a document that was begun has no end that was told');
    const { documents, stages: levels, requests } = stages.snapshot();
    const left = [documents, requests, ...Object.values(levels)].some((load) => load.queued + load.executing > 0);
    if (left || Object.values(levels).some(({ admitted }) => admitted !== 0)) this.#fault('something is left in the pipeline');
    if (limiter.executing > 0 || limiter.snapshot().queued > 0) this.#fault('something is left in the limiter');
    const { counters } = model;
    if (counters.lost > 0 || counters.executing > 0 || counters.waiting > 0)
      this.#fault(`the events lose something: ${JSON.stringify(counters)}`);
  }

  *#read(count: number): Generator<string> {
    for (let i = 0; i < count; i++) {
      this.#reading++;
      yield String(i);
    }
  }

  #stage(stage: number): AnyStage<string> {
    const { concurrency, scope, expands, allowPartialFailure, steps } = this.#rules[stage]!;
    const common = {
      name: `s${String(stage)}`,
      // The same limit, once as a number and once as one that may change.
      concurrency: stage % 2 === 0 ? concurrency : concat(of(concurrency), NEVER),
      scope,
      expands,
      allowPartialFailure,
      timeoutMs: 300,
      deadlineMs: this.#flip(0.3) ? 350 : Infinity,
      retry: this.#flip(0.5) ? ({ maxAttempts: 2, delayMs: 50 } as const) : (false as const),
    };
    const answer = (item: string): unknown =>
      expands ? Array.from({ length: item.length % 4 }, (_, i) => `${item}/${String(i)}`) : `${item}+`;
    if (steps === 0)
      return { ...common, work: (item: string, { documentId, item: path }) => this.#call(documentId, path, stage, answer(item)) };
    return {
      ...common,
      steps: (item: string, { documentId, item: path, request }) => {
        const step = (n: number): Observable<unknown> => request(() => this.#call(documentId, path, stage, n));
        return step(1).pipe(
          expand((n) => ((n as number) < steps ? step((n as number) + 1) : EMPTY)),
          takeLast(1),
          map(() => answer(item)),
        );
      },
    };
  }

  #call(document: string, path: string, stage: number, value: unknown): Observable<unknown> {
    return defer(() => {
      const call = { document, stage };
      this.tally.calls++;
      this.#under.add(call);
      if (this.#over.has(document)) this.#fault('a call for a document that is over');
      if (this.#known.has(`${document} ${path} s${String(stage)}`)) this.#fault('what the journal knows is asked for again');
      if (this.#isLeft) this.#fault('a call after the subscriber left');
      this.#checkLimits(stage, document);
      const fate = this.#draw(20);
      if (fate < 2) this.tally.faults++;
      const outcome =
        fate === 0
          ? throwError(() => ({ status: 400 }))
          : fate === 1
            ? throwError(() => ({ status: 503 }))
            : fate === 2
              ? NEVER
              : of(value);
      // Some at once.
      const call$ = this.#flip(0.2) ? outcome : timer(this.#draw(250), this.clock.scheduler).pipe(mergeMap(() => outcome));
      const over = () => this.#under.delete(call);
      // Before the listeners hear of it.
      return call$.pipe(tap({ error: over, complete: over, unsubscribe: over }));
    });
  }

  #checkLimits(stage: number, document: string): void {
    const { concurrency, scope } = this.#rules[stage]!;
    const alike = [...this.#under].filter((call) => call.stage === stage && (scope === 'shared' || call.document === document));
    if (alike.length > concurrency) this.#fault(`${String(alike.length)} of stage ${String(stage)}`);
    if (this.#under.size > this.#most) this.#fault(`${String(this.#under.size)} requests`);
    if (new Set([...this.#under].map((call) => call.document)).size > this.#documents) this.#fault('too many documents');
  }

  #heard(result: StageResult<string, unknown>): void {
    const { documentId: id } = result;
    if (this.#isLeft) this.#fault('a result after the subscriber left');
    if (this.#over.has(id)) this.#fault('a result of a document that is over');
    const items = this.#items.get(id) ?? [];
    if (result.type === 'item') {
      if (items.some(({ item }) => item === result.item)) this.#fault('an item settles twice');
      this.#items.set(id, [...items, result]);
      if (result.status === 'fulfilled' && result.value !== this.#expected(id, result.item)) this.#fault('the result of another item');
      if (result.status === 'rejected') this.#reason(result.reason);
      return;
    }
    this.#over.add(id);
    if ([...this.#under].some(({ document }) => document === id)) this.#fault('a call goes on after its document');
    const paths = result.items.map(({ item }) => item);
    if (
      paths.join() !==
      items
        .map(({ item }) => item)
        .toSorted(byPath)
        .join()
    )
      this.#fault('a document without an item of it, or in another order');
    const failed = result.items.flatMap((item) => (item.status === 'rejected' ? [item.reason] : []));
    if (result.status === 'fulfilled') {
      if (failed.length > 0) this.tally.partial++;
      if (failed.length > 0 && failed.length === result.items.length) this.#fault('fulfilled, and all its items have failed');
      return;
    }
    this.tally.whole++;
    const { reason } = result;
    const isClosed = isFlowError(reason, 'FLOW_CLOSED');
    const siblings = failed.filter((error) => isFlowError(error, 'FLOW_CLOSED') && error.cause === reason);
    this.tally.siblings += siblings.length;
    if (!isClosed && !failed.includes(reason)) this.#fault('rejected for what was no error of its items');
  }

  /** What the stages make of an item, by its path. */
  #expected(id: string, path: string): string {
    const parts = path === '' ? [] : path.split('.');
    let value = id;
    for (const { expands } of this.#rules) value += expands ? `/${parts.shift() ?? '?'}` : '+';
    return value;
  }

  #reason(reason: unknown): void {
    if (isFlowError(reason, 'FLOW_ATTEMPT_TIMEOUT')) this.tally.timeouts++;
    else if (isFlowError(reason, 'FLOW_DEADLINE')) this.tally.late++;
    else if (!isFlowError(reason, 'FLOW_CLOSED') && typeof (reason as { status?: unknown }).status !== 'number')
      this.#fault(`failed with ${String(reason)}`);
  }

  #plants(result: StageResult<string, unknown>): readonly StageResult<string, unknown>[] {
    if (this.plant === 'none' || result.type === 'document' || result.status === 'rejected') return [result];
    if (this.plant === 'lost') return [];
    return this.plant === 'doubled' ? [result, result] : [{ ...result, item: `${result.item}0` }];
  }

  #fault(what: string): void {
    this.wrong.push(what);
  }

  #draw(below: number): number {
    return Math.floor(this.#random() * below);
  }

  #flip(chance: number): boolean {
    return this.#random() < chance;
  }
}

function byPath(a: string, b: string): number {
  const [as, bs] = [a, b].map((path) => path.split('.').map(Number));
  for (const [i, n] of as!.entries()) if (n !== bs![i]) return n - (bs![i] ?? -1);
  return as!.length - bs!.length;
}

const WORLDS = sized(100, 20_000);
/** None of what is counted happened by chance only. */
const LEAST = sized(0, WORLDS / 40);

describe('pipelines of random stages, faults and ends', () => {
  it('settle every item once, keep every limit, abort siblings, and leave nothing', { timeout: 600_000 }, () => {
    const tally: Tally = { ...NOTHING };
    for (let seed = 1; seed <= WORLDS; seed++) expect({ seed, wrong: world(seed, 'none', tally) }).toEqual({ seed, wrong: [] });
    for (const [what, count] of Object.entries(tally)) expect(count, what).toBeGreaterThan(LEAST);
  });

  it.each(['lost', 'doubled', 'swapped'] as const)('notice a result that is %s', (plant) => {
    const tally: Tally = { ...NOTHING };
    const seeds = Array.from({ length: 20 }, (_, i) => i + 1);
    expect(seeds.flatMap((seed) => world(seed, plant, tally))).not.toEqual([]);
  });
});
