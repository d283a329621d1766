import type { OperatorFunction, SchedulerLike, Subscription } from 'rxjs';
import { defer, from, map, Observable, Subject, toArray } from 'rxjs';
import type { AdaptiveLimitOptions } from '../../operators/adaptive-limit.js';
import { adaptiveLimit } from '../../operators/adaptive-limit.js';
import { classifyError } from '../../operators/classify-error.js';
import { createLimiter } from '../../operators/create-limiter.js';
import { onAbort, requiredSignal } from '../../operators/support/abort.js';
import { Alarm, schedulerOption } from '../../operators/support/alarm.js';
import { connect } from '../../operators/support/connect.js';
import { DeadlineError, FlowConfigError } from '../../operators/support/errors.js';
import type { FlowEvent, FlowSink } from '../../operators/support/events.js';
import { listener } from '../../operators/support/events.js';
import { DEFAULT_LANE } from '../../operators/support/lanes.js';
import { laneOption, limiterOption } from '../../operators/support/limiting/limiter-option.js';
import type { Limiter } from '../../operators/support/limiting/limiter-types.js';
import {
  asGiven,
  callback,
  checked,
  count,
  countFromZero,
  durationMs,
  known,
  orDefault,
  positive,
  required,
} from '../../operators/support/options.js';
import type { RetryOptions } from '../../operators/support/retry.js';
import { Shutdown } from '../../operators/support/shutdown.js';
import { SignalGroups } from '../../operators/support/signal-groups.js';
import type { Classify, Drained, DrainOptions, Handle } from '../../operators/support/types.js';
import type { Phase, ToolJob } from './tools/tool-job.js';
import { runOf } from './tools/tool-results.js';
import type { SessionHost, SessionKind } from './tools/tool-session.js';
import { ToolSession } from './tools/tool-session.js';
import type { RunnerConfig, ToolSetup } from './tools/tool-setup.js';
import { NAME, toolSetups } from './tools/tool-setup.js';
import type { Tool, ToolCall, ToolGuard, ToolResult, ToolRun } from './tools/tool-types.js';

export interface ToolRunnerOptions {
  /** What a model may call. */
  readonly tools: readonly Tool[];
  /** Most calls at a time, over all tools. Not together with `limiter` or `adaptive`. @defaultValue 5 */
  readonly concurrency?: number;
  /**
   * Finds out how many calls at a time go well, in place of a fixed `concurrency`: what `adaptiveLimit` takes. Not together with `limiter`.
   * @defaultValue none
   */
  readonly adaptive?: AdaptiveLimitOptions;
  /** A limiter shared with others, in place of `concurrency`: every attempt takes one request and one slot of it. */
  readonly limiter?: Limiter;
  /** Lane of that limiter. @defaultValue its last one */
  readonly lane?: string;
  /** Most calls of a tool at a time, by its name; goes before what the tool itself says. A full tool never blocks another. @defaultValue none */
  readonly perTool?: Readonly<Record<string, number>>;
  /**
   * Asked before every attempt, with its slot in hand: true lets it go, everything else refuses it, and a refusal is never tried again. It sees
   * the checked, frozen arguments the tool gets. @defaultValue none: every call goes
   */
  readonly guard?: ToolGuard;
  /** Longest attempt of a call, from its slot to its result, the guard included, in ms; its signal aborts. @defaultValue 30000 */
  readonly timeoutMs?: number;
  /** How calls of tools that are `idempotent` or `readOnly` are tried again. @defaultValue 3 attempts, 200 ms doubling to 20 s with full jitter */
  readonly retry?: RetryOptions | false;
  /** Tells failures that may pass from others. @defaultValue `classifyError` */
  readonly classify?: Classify;
  /** Most calls waiting for a slot; one more has the error `queue_full`. 0 = what cannot start at once. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** Longest `content` of a result; the `value` is kept whole. @defaultValue Infinity */
  readonly maxResultChars?: number;
  /** How long a tool that was given up, and cannot be stopped, keeps its slot, in ms. @defaultValue 1000 */
  readonly abortGraceMs?: number;
  readonly onEvent?: FlowSink;
  /** Clock and timers. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Source of jitter, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

/** How some calls are to be made. */
export interface RunToolsOptions {
  /** Gives up what is not over when it aborts: those calls have the error `cancelled`. */
  readonly signal?: AbortSignal;
  /** Longest time for all of them, waiting included, in ms; what is not over then has the error `timeout`. @defaultValue Infinity */
  readonly totalTimeoutMs?: number;
}

/** Calls of one tool at one moment. */
export interface ToolLoad {
  /** Waiting for a slot or for the rate. */
  readonly queued: number;
  /** Of those: waiting for requests per minute of a shared limiter, or for a pause the other side asked for. */
  readonly heldByRate: number;
  /** Of those: waiting for a slot. */
  readonly heldBySlot: number;
  /** Holding a slot: under way, or given up and not over. */
  readonly executing: number;
}

export interface ToolRunnerSnapshot extends ToolLoad {
  /** Accepted and not over, whatever they are doing. */
  readonly open: number;
  /** Of those: waiting to be tried again; they hold no slot. */
  readonly backingOff: number;
  /** The same numbers for each tool that takes slots. */
  readonly tools: Readonly<Record<string, ToolLoad>>;
}

export interface ToolRunner extends Handle {
  /**
   * Makes the calls and emits each result when it is there; completes when all are. Every call gets exactly one result, failures included: it
   * never errors. Unsubscribing gives up the rest for nobody.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `calls` is no list of calls, or an option is unknown or out of range
   */
  run(calls: readonly ToolCall[], options?: RunToolsOptions): Observable<ToolResult>;
  /** The same as a promise of all results in the order of the calls, and of their summary. Never rejects. */
  runAll(calls: readonly ToolCall[], options?: RunToolsOptions): Promise<ToolRun>;
  /** The same as an operator, for calls that come as a stream; errors when its source does, or when something in it is no call. */
  mapCalls(options?: RunToolsOptions): OperatorFunction<ToolCall, ToolResult>;
  /** What a model may call: make its tool definitions of these. */
  readonly tools: readonly Tool[];
  snapshot(): ToolRunnerSnapshot;
  /** Everything that is told through `onEvent`, too. Completes when the runner has drained or was closed. */
  readonly events: Observable<FlowEvent>;
}

export const TOOL_RUNNER_DEFAULTS = {
  concurrency: 5,
  timeoutMs: 30_000,
  maxQueued: 1000,
  maxResultChars: Infinity,
  abortGraceMs: 1000,
} as const;

/**
 * Tool calls in, tool results out: what a model asks for is checked, allowed, limited, timed, tried again where that does no harm, and
 * answered, each call by its own id.
 *
 * - **Emits when** a call is over: one result each, a success or a failure the model can act on (`unknown_tool` with the tools there are,
 *   `invalid_arguments` with what is wrong and where, `permission_denied`, `timeout`, `failed` with the tool's message, …).
 * - **Starts when** there is a slot of all and a slot of its tool: calls of a tool in their order, tools beside each other.
 * - **Asks** the `guard` before every attempt, with the slot in hand and the very arguments that are executed, frozen: nothing can change
 *   between its yes and the tool.
 * - **Tries again** only tools that say that it does no harm (`idempotent`, `readOnly`, or their own `retry`), only failures that may pass, and
 *   holds no slot while it waits.
 * - **Holds at most** `maxQueued` calls that wait, and those under way.
 * - **Completes when** every call has its result.
 * - **On unsubscribe** what waits is gone, the signals of what runs abort, nothing is emitted.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option or a tool is unknown or out of range.
 * @example
 * ```ts
 * import { createToolRunner, defineTool } from 'sluice';
 * import * as z from 'zod';
 *
 * const notes = new Map([['a.md', 'otters hold hands']]);
 * const read = defineTool({
 *   name: 'read',
 *   description: 'Reads a note.',
 *   parameters: z.object({ path: z.string() }),
 *   readOnly: true,
 *   execute: ({ path }) => notes.get(path) ?? Promise.reject(new Error('no such note')),
 * });
 * const runner = createToolRunner({ tools: [read], guard: ({ input }) => (input as { path: string }).path.endsWith('.md') });
 * const { results, summary } = await runner.runAll([
 *   { id: 'toolu_1', name: 'read', input: { path: 'a.md' } },
 *   { id: 'toolu_2', name: 'read', input: { path: '.env' } },
 *   { id: 'toolu_3', name: 'write', input: {} },
 * ]);
 * results.map((result) => (result.is_error ? result.error.code : result.content)); // => ['otters hold hands', 'permission_denied', 'unknown_tool']
 * summary.failed; // => 2
 * ```
 */
export function createToolRunner(options: ToolRunnerOptions): ToolRunner {
  return new FlowToolRunner(options);
}

const RUN_OPTIONS = ['signal', 'totalTimeoutMs'] as const;
const NO_OPTIONS: RunToolsOptions = {};
const FROM_OUTSIDE: SessionKind = { inside: false, reusesIds: false };
const FROM_STREAM: SessionKind = { inside: false, reusesIds: true };
const FROM_INSIDE: SessionKind = { inside: true, reusesIds: false };

class FlowToolRunner implements ToolRunner, SessionHost {
  readonly tools: readonly Tool[];
  readonly setups: ReadonlyMap<string, ToolSetup>;
  readonly config: RunnerConfig;
  readonly events: Observable<FlowEvent>;
  readonly counts: Record<Phase, number> = { idle: 0, queued: 0, asking: 0, executing: 0, backingOff: 0, over: 0 };
  retrying = 0;
  readonly #events = new Subject<FlowEvent>();
  readonly #clock: Alarm;
  readonly #limiter: Limiter;
  readonly #ownsLimiter: boolean;
  readonly #adapting: Subscription | undefined;
  readonly #shutdown: Shutdown;
  readonly #open = new Set<ToolJob>();
  /** What ends requests, by their signals. */
  readonly #signals = new SignalGroups<() => void>(({ members }) => {
    for (const stop of members) stop();
  });
  /** What frees the slots of calls that are being given up together. */
  #freed: (() => void)[] | undefined;
  #isGivingUp = false;
  #ids = 0;

  constructor(options: ToolRunnerOptions) {
    const { tools, perTool, limiter, adaptive, onEvent, retry, abortGraceMs, concurrency, ...config } = readOptions(options);
    const { scheduler, classify, timeoutMs } = config;
    this.#clock = new Alarm(scheduler, () => undefined);
    this.events = this.#events.asObservable();
    const tell = (event: FlowEvent): void => {
      onEvent?.(event);
      this.#events.next(event);
    };
    this.config = { ...config, tell };
    this.#ownsLimiter = limiter === undefined;
    this.#limiter = limiter ?? createLimiter({ concurrency, abortGraceMs, scheduler, onEvent: onlyChanges(tell) });
    this.setups = toolSetups(tools, { perTool, timeoutMs, retry, abortGraceMs, limiter: this.#limiter });
    this.#adapting = adaptive && adaptiveLimit(this.#limiter, { classify, ...adaptive });
    this.tools = [...tools];
    this.#shutdown = new Shutdown({
      operator: NAME,
      scheduler,
      stop: () => {
        this.checkDrained();
      },
      abort: (error) => {
        this.#isGivingUp = true;
        this.together(() => {
          for (const job of [...this.#open]) job.cancel({ code: 'closed', message: 'the runner was closed' }, error);
        });
        this.checkDrained();
      },
    });
  }

  run(calls: readonly ToolCall[], options: RunToolsOptions = NO_OPTIONS): Observable<ToolResult> {
    return this.#results(from(checkedCalls(calls)), options, FROM_OUTSIDE);
  }

  runAll(calls: readonly ToolCall[], options: RunToolsOptions = NO_OPTIONS): Promise<ToolRun> {
    const run = this.#together(this.run(calls, options));
    return new Promise((resolve, reject) => {
      run.subscribe({ next: resolve, error: reject });
    });
  }

  mapCalls(options: RunToolsOptions = NO_OPTIONS): OperatorFunction<ToolCall, ToolResult> {
    runOptions(options);
    return (source) => this.#results(source.pipe(map((call) => checkedCall(call, 'call'))), options, FROM_STREAM);
  }

  snapshot(): ToolRunnerSnapshot {
    const { executing, concurrency } = this.#limiter.snapshot();
    const tools: Record<string, ToolLoad> = {};
    const all = { queued: 0, heldByRate: 0, heldBySlot: 0, executing: 0 };
    for (const [name, { limiter }] of this.setups) {
      if (limiter === undefined) continue;
      const load = loadOf(limiter, executing >= concurrency);
      tools[name] = load;
      all.queued += load.queued;
      all.heldByRate += load.heldByRate;
      all.heldBySlot += load.heldBySlot;
      all.executing += load.executing;
    }
    return { open: this.#open.size, backingOff: this.counts.backingOff, ...all, tools };
  }

  drain(options?: DrainOptions): Promise<Drained> {
    return this.#shutdown.drain(options);
  }

  close(): void {
    this.#shutdown.close();
  }

  shutdownOn(signal: AbortSignal, options?: DrainOptions): this {
    this.#shutdown.on(signal, options);
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
  }

  // ---- what calls need of it ----------------------------------------------------------------------------------------

  now(): number {
    return this.#clock.now();
  }

  nextId(): string {
    return String(this.#ids++);
  }

  takes(inside: boolean): boolean {
    return inside ? !this.#isGivingUp : !this.#shutdown.isClosed;
  }

  opened(job: ToolJob): void {
    this.#open.add(job);
  }

  ended(job: ToolJob, result: ToolResult | undefined): void {
    this.#open.delete(job);
    if (result === undefined) return;
    this.#tellSettled(result, result.name);
    // What its own caller gave up is in none of the numbers.
    if (this.#isGivingUp) this.#shutdown.count(job.attempts > 0 ? 'aborted' : 'dropped');
    else if (!result.is_error || result.error.code !== 'cancelled') this.#shutdown.count('done');
  }

  together(giveUp: () => void): void {
    if (this.#freed) {
      giveUp();
      return;
    }
    const freed: (() => void)[] = [];
    this.#freed = freed;
    try {
      giveUp();
    } finally {
      this.#freed = undefined;
      for (const release of freed) release();
    }
  }

  free(release: () => void): void {
    if (this.#freed) this.#freed.push(release);
    else release();
  }

  turnedAway(result: ToolResult): void {
    this.#tellSettled(result, this.setups.has(result.name) ? result.name : DEFAULT_LANE);
  }

  checkDrained(): void {
    if (!this.#shutdown.isClosed || this.#open.size > 0 || !this.#shutdown.finish()) return;
    for (const { limiter } of this.setups.values()) limiter?.close();
    this.#adapting?.unsubscribe();
    if (this.#ownsLimiter) this.#limiter.close();
    this.config.tell({ type: 'drained', operator: NAME });
    this.#events.complete();
  }

  readonly runInside = (calls: readonly ToolCall[], signal: AbortSignal): Observable<ToolRun> =>
    this.#together(this.#results(from(checkedCalls(calls)), NO_OPTIONS, FROM_INSIDE, signal));

  #tellSettled({ is_error, attempts, durationMs: totalMs }: ToolResult, lane: string): void {
    const outcome = is_error ? 'rejected' : 'fulfilled';
    this.config.tell({ type: 'settled', operator: NAME, lane, outcome, attempts, totalMs });
  }

  /** Makes the calls of a source. With `lifeline` its abort is an error, and not the result of every call. */
  #results(source: Observable<ToolCall>, options: RunToolsOptions, kind: SessionKind, lifeline?: AbortSignal): Observable<ToolResult> {
    const { signal, totalTimeoutMs } = runOptions(options);
    return new Observable((subscriber) => {
      let hasAll = false;
      const session = new ToolSession(this, kind, (result) => {
        subscriber.next(result);
        if (hasAll && session.size === 0) subscriber.complete();
      });
      const alarm = new Alarm(this.config.scheduler, () => {
        const error = new DeadlineError(NAME, totalTimeoutMs, totalTimeoutMs);
        session.end({ code: 'timeout', message: `not over within the ${String(totalTimeoutMs)} ms for all calls` }, error);
      });
      subscriber.add(() => {
        alarm.clear();
        session.leave();
      });
      if (signal) {
        subscriber.add(
          this.#whenAborted(signal, () => {
            session.end({ code: 'cancelled', message: 'the call was cancelled' }, signal.reason);
          }),
        );
      }
      if (lifeline) {
        subscriber.add(
          onAbort(lifeline, () => {
            subscriber.error(lifeline.reason);
          }),
        );
      }
      if (totalTimeoutMs !== Infinity) alarm.set(alarm.now() + totalTimeoutMs);
      connect(source, subscriber, {
        next: (call) => {
          session.accept(call);
        },
        complete: () => {
          hasAll = true;
          if (session.size === 0) subscriber.complete();
        },
      });
    });
  }

  /** All results in the order of their calls, when the last is there. */
  #together(results: Observable<ToolResult>): Observable<ToolRun> {
    return defer(() => {
      const startedAt = this.now();
      return results.pipe(
        toArray(),
        map((all) => runOf(all.sort(byIndex), this.now() - startedAt)),
      );
    });
  }

  /** One listener serves all requests of a signal. */
  #whenAborted(signal: AbortSignal, stop: () => void): () => void {
    if (signal.aborted) {
      stop();
      return () => undefined;
    }
    const group = this.#signals.of(signal);
    group.add(stop);
    return () => {
      group.remove(stop);
    };
  }
}

/** What of a tool waits while it has room itself waits for a slot of all, unless it is paused. */
function loadOf(limiter: Limiter, isFull: boolean): ToolLoad {
  const { queued, heldBySlot: ownSlot, executing, concurrency, pausedForMs } = limiter.snapshot();
  const heldBySlot = isFull && executing < concurrency && pausedForMs === 0 ? queued : ownSlot;
  return { queued, heldByRate: queued - heldBySlot, heldBySlot, executing };
}

/** Of what the runner's own limiter says; the rest the runner says itself. */
function onlyChanges(tell: FlowSink): FlowSink {
  return (event) => {
    if (event.type === 'limitChanged') tell(event);
  };
}

function byIndex(a: ToolResult, b: ToolResult): number {
  return a.index - b.index;
}

function runOptions(options: RunToolsOptions) {
  known(NAME, options, RUN_OPTIONS, 'run options');
  const { signal } = options;
  if (signal !== undefined) requiredSignal(NAME, 'signal', signal);
  return { signal, totalTimeoutMs: durationMs(NAME, 'totalTimeoutMs', orDefault(options.totalTimeoutMs, Infinity)) };
}

function checkedCalls(calls: readonly ToolCall[]): readonly ToolCall[] {
  if (!Array.isArray(calls)) throw new FlowConfigError(NAME, 'calls', 'an array', calls);
  return (calls as readonly ToolCall[]).map((call, i) => checkedCall(call, `calls[${String(i)}]`));
}

/** A copy, so that nobody exchanges the call of a tool for that of another. Without an id and a name there is nobody to answer. */
function checkedCall(call: ToolCall, at: string): ToolCall {
  const { id, name, input } = Object(call) as Partial<ToolCall>;
  if (typeof id !== 'string' || id === '') throw new FlowConfigError(NAME, `${at}.id`, 'a non-empty string', id);
  if (typeof name !== 'string') throw new FlowConfigError(NAME, `${at}.name`, 'a string', name);
  return { id, name, input };
}

function readOptions(options: ToolRunnerOptions) {
  const { limiter, concurrency, adaptive } = Object(options) as ToolRunnerOptions;
  const defaults = { ...TOOL_RUNNER_DEFAULTS, perTool: {}, classify: classifyError, random: Math.random };
  const given = checked(NAME, options, defaults, {
    tools: asGiven,
    concurrency: count,
    adaptive: asGiven,
    limiter: (operator, _option, value: Limiter | undefined) => limiterOption(operator, value, concurrency),
    lane: asGiven,
    perTool: limitsByName,
    guard: callback,
    timeoutMs: positive,
    retry: asGiven,
    classify: required,
    maxQueued: countFromZero,
    maxResultChars: count,
    abortGraceMs: durationMs,
    onEvent: listener,
    scheduler: schedulerOption,
    random: required,
  });
  if (adaptive !== undefined && limiter !== undefined)
    throw new FlowConfigError(
      NAME,
      'adaptive',
      'absent when a `limiter` is given: call `adaptiveLimit(limiter)` where it is made',
      adaptive,
    );
  if (adaptive !== undefined && concurrency !== undefined)
    throw new FlowConfigError(NAME, 'concurrency', 'absent when `adaptive` is given', concurrency);
  if (given.lane !== undefined && limiter === undefined) throw new FlowConfigError(NAME, 'lane', 'absent without a `limiter`', given.lane);
  laneOption(NAME, given.lane, limiter);
  return given;
}

function limitsByName(operator: string, option: string, limits: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  if (Object.prototype.toString.call(limits) !== '[object Object]') throw new FlowConfigError(operator, option, 'an object', limits);
  for (const [name, limit] of Object.entries(limits)) count(operator, `${option}.${name}`, limit);
  return limits;
}
