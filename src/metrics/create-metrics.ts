import type { SchedulerLike } from 'rxjs';
import { Observable, Subject } from 'rxjs';
import { Alarm, check, listenTo } from '../../operators/build.js';
import type { FlowEvent, FlowSink, Limiter } from '../../operators/index.js';
import { ledgerOf } from '../account/ledger.js';
import type { CallRecord } from './call-record.js';
import type { CollectedMetrics } from './collected.js';
import { Collected } from './collected.js';
import type { Gauges, LimiterGauges, Observed } from './gauges.js';
import { gaugesOf, sumOf } from './gauges.js';
import type { MetricsWindow } from './rolling.js';
import { Rolling } from './rolling.js';

/** @stable */
export interface MetricsOptions {
  /** Least time between two values of `metrics$`, in ms. @defaultValue 1000 */
  readonly intervalMs?: number;
  /** Most labels of one kind (operators, lanes, models, codes); what comes after them is counted as `other`. @defaultValue 50 */
  readonly maxLabels?: number;
  /** Most items in a batch, for `meanFill`. @defaultValue Infinity: not known */
  readonly maxBatchSize?: number;
  /**
   * Shows the last so many milliseconds next to the totals, as `window`: rates per second, percentiles, shares. From 10 to 86,400,000 (a day).
   * @defaultValue none: nothing is kept for it
   */
  readonly windowMs?: number | undefined;
  /** Clock of the window, and timer of `metrics$`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/**
 * Numbers of one moment, and totals since the start.
 * @beta
 */
export interface MetricsSnapshot extends Gauges, CollectedMetrics {
  /** What is observed, by the name it was given. The four numbers above are the sums of theirs. */
  readonly observed: Readonly<Record<string, LimiterGauges>>;
  /** The same as the totals, of the last `windowMs` alone; undefined without that option. */
  readonly window: MetricsWindow | undefined;
}

/** @stable */
export interface Metrics {
  /** Takes events: give it as `onEvent`. */
  readonly sink: FlowSink;
  /** Takes records of model calls: give it as `onRecord`. */
  readonly record: (record: CallRecord) => void;
  /**
   * Shows a limiter or a pipeline in the snapshot, under a name; the returned function stops that. Observe the limiter, or the pipeline
   * that uses it: with both, what waits is counted twice.
   */
  observe(name: string, observed: Observed): () => void;
  /**
   * Takes all that an account has, until the returned function is called: the record of every attempt under it, whatever adapter, client or pipeline makes
   * it, the events of the account and of its models, and what `observe` shows. The name is that of the account's options, else `'account'`.
   *
   * What `record` and `sink` are told of the same account as well, as its `onRecord` and `onEvent` or as those of what uses it, is counted once: as long as
   * it comes as the same object, and just before.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when it is no limiter, or the name is in use.
   * @example
   * ```ts
   * import { createAccount } from 'sluice';
   * import { createMetrics } from 'sluice/metrics';
   * import { limitFetch } from 'sluice/fetch';
   *
   * const metrics = createMetrics();
   * const account = createAccount({ concurrency: 2, name: 'provider' });
   * const stop = metrics.watch(account);
   * const limited = limitFetch({ limiter: account, fetch: async () => Response.json({ usage: { prompt_tokens: 2, completion_tokens: 1 } }) });
   * await (await limited('https://host/v1/chat/completions', { method: 'POST', body: '{"model":"m","messages":[]}' })).json();
   * const { calls, observed } = metrics.snapshot();
   * [calls.attempts, calls.promptTokens, observed['provider']?.concurrency]; // => [1, 2, 2]
   * stop();
   * ```
   */
  watch(account: Limiter, name?: string): () => void;
  snapshot(): MetricsSnapshot;
  /**
   * A snapshot at once, and one after each change, at most one every `intervalMs`; with a window also while there is something in it. There is no
   * timer without a subscriber, and none while nothing happens.
   */
  readonly metrics$: Observable<MetricsSnapshot>;
  /** Every event that `sink` receives, at once, for example for a drawing. Never completes. */
  readonly events: Observable<FlowEvent>;
}

/** What {@link createMetrics} does when an option is left out. */
export const METRICS_DEFAULTS = { intervalMs: 1000, maxLabels: 50, maxBatchSize: Infinity } as const;

const NAME = 'createMetrics';

/**
 * Adds up what operators and pipelines tell, for a dashboard, a log or an alarm: how much waits and for what, how full batches are, how
 * often calls fail and with which code, percentiles of latency, tokens.
 *
 * - **Holds at most** a few kB for each operator, instance with a name, lane and model, `maxLabels` of each: percentiles come from buckets, at most 2 %
 *   off. With `windowMs`, as much again for each tenth of the window in which something was told.
 * - **Never** sees an item, a prompt or a key: events and records have none.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { batchMap } from 'sluice';
 * import { createMetrics } from 'sluice/metrics';
 * import { createLimiter } from 'sluice/operators';
 *
 * const metrics = createMetrics({ maxBatchSize: 4 });
 * const limiter = createLimiter({ concurrency: 2 });
 * metrics.observe('provider', limiter);
 * await from([1, 2, 3, 4, 5, 6]).pipe(batchMap(async (xs) => xs, { maxSize: 4, limiter, onEvent: metrics.sink })).forEach(() => undefined);
 * const { queued, executing, flow } = metrics.snapshot();
 * [queued, executing, flow.calls, flow.meanFill, flow.ended.failureRate]; // => [0, 0, 2, 0.75, 0]
 * ```
 * @see {@link createModelCaller} for the records.
 */
export function createMetrics(options: MetricsOptions = {}): Metrics {
  const settings = check.options(NAME, options, METRICS_DEFAULTS, {
    intervalMs: check.count,
    maxLabels: check.count,
    maxBatchSize: check.count,
    windowMs: check.optional<number>((operator, option, value) => check.ratio(operator, option, value, 10, 86_400_000)),
    scheduler: check.scheduler,
  });
  return new FlowMetricsCollector(settings);
}

type Settings = Required<MetricsOptions>;

class FlowMetricsCollector implements Metrics {
  readonly metrics$: Observable<MetricsSnapshot>;
  readonly events: Observable<FlowEvent>;
  readonly #events = new Subject<FlowEvent>();
  readonly #settings: Settings;
  readonly #totals: Collected;
  readonly #window: Rolling | undefined;
  readonly #observed = new Map<string, Observed>();
  /** How to stop listening to what is observed; filled only while `metrics$` has a subscriber. */
  readonly #links = new Map<string, () => void>();
  readonly #snapshots = new Subject<MetricsSnapshot>();
  readonly #alarm: Alarm;
  #listeners = 0;
  /** Counts what was told, to notice a change. */
  #told = 0;
  #lastTold = 0;
  /** What was told last: a watched account may tell the same once more. */
  #lastEvent: FlowEvent | undefined = undefined;
  #lastRecord: CallRecord | undefined = undefined;
  /** There was something in the window. */
  #isMoving = false;
  #lastGauges: Gauges = sumOf([]);
  #lastAt = -Infinity;

  constructor(settings: Settings) {
    const { maxLabels, maxBatchSize, windowMs, scheduler } = settings;
    const collected = (): Collected => new Collected(maxLabels, maxBatchSize);
    this.#settings = settings;
    this.events = this.#events.asObservable();
    this.#totals = collected();
    this.#alarm = new Alarm(scheduler, () => {
      this.#look();
    });
    this.#window = windowMs === undefined ? undefined : new Rolling(windowMs, this.#alarm.now(), collected);
    this.metrics$ = new Observable((subscriber) => {
      if (++this.#listeners === 1) this.#start();
      subscriber.add(() => {
        if (--this.#listeners === 0) this.#stop();
      });
      subscriber.add(this.#snapshots.subscribe(subscriber));
      subscriber.next(this.snapshot());
    });
  }

  readonly sink = (event: FlowEvent): void => {
    this.#lastEvent = event;
    this.#totals.add(event);
    this.#window?.add(event, this.#alarm.now());
    this.#changed();
    this.#events.next(event);
  };

  readonly record = (record: CallRecord): void => {
    this.#lastRecord = record;
    this.#totals.record(record);
    this.#window?.record(record, this.#alarm.now());
    this.#changed();
  };

  observe(name: string, observed: Observed): () => void {
    check.nonEmpty(NAME, 'name', name);
    if (this.#observed.has(name)) throw check.misused(NAME, 'name', `\`${name}\` is observed already`, 'Choose another `name`.');
    check.requiredFunction(NAME, 'observed.snapshot', (observed as Partial<Observed> | null | undefined)?.snapshot);
    this.#observed.set(name, observed);
    if (this.#listeners > 0) this.#link(name, observed);
    this.#changed();
    return () => {
      if (this.#observed.get(name) !== observed) return;
      this.#observed.delete(name);
      this.#links.get(name)?.();
      this.#links.delete(name);
      this.#changed();
    };
  }

  watch(account: Limiter, name?: string): () => void {
    check.requiredLimiter(NAME, 'account', account);
    const stopGauges = this.observe(name === undefined ? (account.name ?? 'account') : name, account);
    const stopEvents = listenTo(account, {
      event: (event) => {
        if (event !== this.#lastEvent) this.sink(event);
      },
    });
    const stopRecords = ledgerOf(account).watch((record) => {
      if (record !== this.#lastRecord) this.record(record);
    });
    const stops = [stopGauges, stopEvents, stopRecords];
    return () => {
      // Once: the account may be watched anew under this name.
      for (const stop of stops.splice(0)) stop();
    };
  }

  snapshot(): MetricsSnapshot {
    const observed = this.#gauges();
    return {
      ...sumOf(Object.values(observed)),
      observed,
      ...this.#totals.snapshot(),
      window: this.#window?.snapshot(this.#alarm.now()),
    };
  }

  #gauges(): Record<string, LimiterGauges> {
    return Object.fromEntries([...this.#observed].map(([name, observed]) => [name, gaugesOf(observed)]));
  }

  #start(): void {
    for (const [name, observed] of this.#observed) this.#link(name, observed);
    this.#remember(sumOf(Object.values(this.#gauges())));
    this.#wait(this.#lastGauges);
  }

  #stop(): void {
    this.#alarm.clear();
    for (const unlink of this.#links.values()) unlink();
    this.#links.clear();
  }

  #link(name: string, observed: Observed): void {
    const changed = (): void => {
      this.#changed();
    };
    const stopReleases = observed.onRelease?.(changed);
    const events = observed.events?.subscribe({ next: changed });
    this.#links.set(name, () => {
      stopReleases?.();
      events?.unsubscribe();
    });
  }

  #changed(): void {
    this.#told++;
    if (this.#listeners > 0) this.#arm();
  }

  #arm(): void {
    this.#alarm.set(Math.max(this.#alarm.now(), this.#lastAt + this.#settings.intervalMs));
  }

  /** Tells the listeners when something is different. */
  #look(): void {
    const gauges = sumOf(Object.values(this.#gauges()));
    const isNew = this.#isMoving || this.#told !== this.#lastTold || !same(gauges, this.#lastGauges);
    this.#remember(gauges);
    this.#wait(gauges);
    if (isNew) this.#snapshots.next(this.snapshot());
  }

  /** No event reports that a job joins a queue, so the gauges are read again as long as something is under way. */
  #wait({ queued, executing }: Gauges): void {
    if (this.#isMoving || queued + executing > 0) this.#arm();
  }

  #remember(gauges: Gauges): void {
    this.#lastTold = this.#told;
    this.#lastGauges = gauges;
    this.#lastAt = this.#alarm.now();
    this.#isMoving = this.#window?.isEmpty(this.#lastAt) === false;
  }
}

function same(one: Gauges, other: Gauges): boolean {
  return (
    one.queued === other.queued &&
    one.heldByRate === other.heldByRate &&
    one.heldBySlot === other.heldBySlot &&
    one.executing === other.executing
  );
}
