import type { OperatorFunction, Subscription } from 'rxjs';
import { defer, from, map, Observable, toArray } from 'rxjs';
import { adaptiveLimit } from '../../../operators/adaptive-limit.js';
import { createLimiter } from '../../../operators/create-limiter.js';
import { ClosedError, DeadlineError, FlowConfigError } from '../../../operators/errors.js';
import { lanes } from '../../../operators/lanes.js';
import { AbortCalls, Alarm, connect, DEFAULT_LANE, instanceOf, onAbort, Shutdown, ShutdownHandle } from '../../../operators/toolkit.js';
import type { FlowEvent, FlowSink, Limiter, LimiterJob } from '../../../operators/types.js';
import { EventChannel } from '../event-channel.js';
import type { AnyRunnerOptions } from './runner-options.js';
import { checkedCall, checkedCalls, readOptions, runOptions } from './runner-options.js';
import type { RunGiven, RunToolsArguments, RunToolsOptions, ToolLoad, ToolRunner, ToolRunnerSnapshot } from './runner-types.js';
import type { Phase, ToolJob } from './tool-job.js';
import { runOf } from './tool-results.js';
import type { SessionHost, SessionKind } from './tool-session.js';
import { ToolSession } from './tool-session.js';
import type { RunnerConfig, ToolDefaults, ToolSetup } from './tool-setup.js';
import { NAME, toolSetups, withTools } from './tool-setup.js';
import type { AnyTool, ToolCall, ToolResult, ToolRun } from './tool-types.js';

/** One lane, whose keys take turns. */
const SHARED_BY_KEY = /* @__PURE__ */ lanes<LimiterJob>([{ name: DEFAULT_LANE }], { key: ({ key }) => key });
const FROM_OUTSIDE: SessionKind = { inside: false, reusesIds: false };
const FROM_STREAM: SessionKind = { inside: false, reusesIds: true };
const FROM_INSIDE: SessionKind = { inside: true, reusesIds: false };

/** The calls of all requests, the limits they share, and the end of all. */
export class FlowToolRunner extends ShutdownHandle implements ToolRunner, SessionHost {
  tools: readonly AnyTool[] = [];
  setups: ReadonlyMap<string, ToolSetup>;
  readonly config: RunnerConfig;
  readonly events: Observable<FlowEvent>;
  readonly counts: Record<Phase, number> = { idle: 0, queued: 0, asking: 0, executing: 0, backingOff: 0, over: 0 };
  retrying = 0;
  refused = 0;
  turningAway = 0;
  readonly #clock: Alarm;
  readonly #limiter: Limiter;
  readonly #ownsLimiter: boolean;
  readonly #adapting: Subscription | undefined;
  protected override readonly shutdown: Shutdown;
  readonly #defaults: ToolDefaults;
  /** Taken away while calls of them were under way. */
  readonly #leaving = new Set<ToolSetup>();
  readonly #open = new Set<ToolJob>();
  /** What ends requests, by their signals. */
  readonly #signals = new AbortCalls((stopAll) => {
    this.together(stopAll);
  });
  /** What frees the slots of calls that are being given up together. */
  #freed: (() => void)[] | undefined;
  #isGivingUp = false;
  #ids = 0;

  constructor(options: AnyRunnerOptions) {
    super();
    const { tools, perTool, limiter, adaptive, onEvent, retry, classify, abortGraceMs, concurrency, name, ...config } =
      readOptions(options);
    const { scheduler, timeoutMs } = config;
    this.#clock = new Alarm(scheduler, () => undefined);
    const channel = new EventChannel(onEvent);
    this.events = channel.events;
    const instance = instanceOf(name);
    const tell = (event: FlowEvent): void => {
      channel.tell({ instance, at: this.now(), ...event });
    };
    this.config = { ...config, tell };
    this.#ownsLimiter = limiter === undefined;
    this.#limiter = limiter ?? createLimiter({ concurrency, queue: SHARED_BY_KEY, abortGraceMs, scheduler, onEvent: onlyChanges(tell) });
    this.#defaults = { perTool, timeoutMs, retry, classify, abortGraceMs, limiter: this.#limiter };
    this.setups = toolSetups(tools, this.#defaults);
    this.#listTools();
    this.#adapting = adaptive && adaptiveLimit(this.#limiter, { classify, ...adaptive });
    this.shutdown = new Shutdown({
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

  run(calls: readonly ToolCall[], ...[options]: RunToolsArguments<unknown>): Observable<ToolResult> {
    return this.#results(from(checkedCalls(calls)), options, FROM_OUTSIDE);
  }

  runAllAsync(calls: readonly ToolCall[], ...options: RunToolsArguments<unknown>): Promise<ToolRun> {
    const run = this.#together(this.run(calls, ...options));
    return new Promise((resolve, reject) => {
      run.subscribe({ next: resolve, error: reject });
    });
  }

  mapCalls(...[options]: RunToolsArguments<unknown>): OperatorFunction<ToolCall, ToolResult> {
    runOptions(options);
    return (source) => this.#results(source.pipe(map((call) => checkedCall(call, 'call'))), options, FROM_STREAM);
  }

  addTools(tools: readonly AnyTool[]): void {
    if (this.shutdown.isClosed) throw new ClosedError(NAME);
    this.setups = withTools(this.setups, tools, this.#defaults);
    this.#listTools();
  }

  removeTools(names: readonly string[]): void {
    if (!Array.isArray(names) || !names.every((name) => typeof name === 'string'))
      throw new FlowConfigError(NAME, 'names', 'an array of strings', names);
    const kept = new Map(this.setups);
    for (const name of names as readonly string[]) {
      const setup = kept.get(name);
      if (setup === undefined) continue;
      kept.delete(name);
      this.#leaving.add(setup);
    }
    this.setups = kept;
    this.#listTools();
    for (const setup of this.#leaving) this.#checkGone(setup);
  }

  snapshot(): ToolRunnerSnapshot {
    const { executing, concurrency } = this.#limiter.snapshot();
    const tools = new Map<string, ToolLoad>();
    const all = { queued: 0, heldByRate: 0, heldBySlot: 0, executing: 0 };
    for (const { tool, limiter } of [...this.setups.values(), ...this.#leaving]) {
      if (limiter === undefined) continue;
      const load = loadOf(limiter, executing >= concurrency);
      const before = tools.get(tool.name);
      tools.set(tool.name, before ? sumOf(before, load) : load);
      all.queued += load.queued;
      all.heldByRate += load.heldByRate;
      all.heldBySlot += load.heldBySlot;
      all.executing += load.executing;
    }
    return { open: this.#open.size, backingOff: this.counts.backingOff, ...all, tools: Object.fromEntries(tools) };
  }

  // ---- what calls need of it ----------------------------------------------------------------------------------------

  now(): number {
    return this.#clock.now();
  }

  nextId(): string {
    return String(this.#ids++);
  }

  takes(inside: boolean): boolean {
    return inside ? !this.#isGivingUp : !this.shutdown.isClosed;
  }

  opened(job: ToolJob): void {
    this.#open.add(job);
  }

  ended(job: ToolJob, result: ToolResult | undefined, id: string): void {
    if (result) {
      const isGivenUp = this.#isGivingUp;
      this.tellSettled(result, result.name, id);
      // What its own caller gave up is in none of the numbers.
      if (isGivenUp) this.shutdown.count(job.wasStarted ? 'aborted' : 'dropped');
      else if (!result.is_error || result.error.code !== 'cancelled') this.shutdown.count('done');
    }
    // Whoever was told may have drained or closed the runner.
    this.#open.delete(job);
    if (this.#leaving.has(job.setup)) this.#checkGone(job.setup);
  }

  tellSettled({ is_error, attempts, durationMs: totalMs }: ToolResult, lane: string, batchId: string): void {
    const outcome = is_error ? 'rejected' : 'fulfilled';
    this.config.tell({ type: 'settled', operator: NAME, lane, batchId, outcome, attempts, totalMs });
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

  checkDrained(): void {
    if (!this.shutdown.isClosed || this.#open.size + this.turningAway > 0 || !this.shutdown.finish()) return;
    this.#adapting?.unsubscribe();
    if (this.#ownsLimiter) this.#limiter.close();
    // In a shared limiter, what goes on all the same keeps its slot for as long as it may.
    else for (const { limiter } of this.setups.values()) void limiter?.drain();
    this.config.tell({ type: 'drained', operator: NAME });
  }

  readonly runInside = (calls: readonly ToolCall[], signal: AbortSignal, given: RunGiven): Observable<ToolRun> =>
    this.#together(this.#results(from(checkedCalls(calls)), given, FROM_INSIDE, signal));

  #listTools(): void {
    this.tools = Object.freeze([...this.setups.values()].map(({ tool }) => tool));
  }

  /** A tool that was taken away is forgotten with its last call. */
  #checkGone(setup: ToolSetup): void {
    for (const job of this.#open) if (job.setup === setup) return;
    this.#leaving.delete(setup);
    // What was given up and goes on all the same keeps its slot for as long as it may.
    void setup.limiter?.drain();
  }

  /** Makes the calls of a source. With `lifeline` its abort is an error, and not the result of every call. */
  #results(
    source: Observable<ToolCall>,
    options: RunToolsOptions | undefined,
    kind: SessionKind,
    lifeline?: AbortSignal,
  ): Observable<ToolResult> {
    const { signal, deadlineMs, given } = runOptions(options);
    return new Observable((subscriber) => {
      let hasAll = false;
      const session = new ToolSession(this, { ...kind, hasDeadline: deadlineMs < Infinity }, given, (result) => {
        subscriber.next(result);
        if (hasAll && session.size === 0) subscriber.complete();
      });
      const alarm = new Alarm(this.config.scheduler, () => {
        const error = new DeadlineError(NAME, deadlineMs, deadlineMs);
        session.end({ code: 'timeout', message: `not over within the ${String(deadlineMs)} ms for all calls` }, error);
      });
      subscriber.add(() => {
        alarm.clear();
        session.leave();
      });
      if (signal) {
        this.#signals.stop(signal, subscriber, (reason) => {
          session.end({ code: 'cancelled', message: 'the call was cancelled' }, reason);
        });
      }
      if (lifeline) {
        subscriber.add(
          onAbort(lifeline, () => {
            subscriber.error(lifeline.reason);
          }),
        );
      }
      if (deadlineMs !== Infinity) alarm.set(alarm.now() + deadlineMs);
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
}

/** What of a tool waits while it has room itself waits for a slot of all, unless it is paused. */
function loadOf(limiter: Limiter, isFull: boolean): ToolLoad {
  const { queued, heldBySlot: ownSlot, executing, concurrency, pausedForMs } = limiter.snapshot();
  const heldBySlot = isFull && executing < concurrency && pausedForMs === 0 ? queued : ownSlot;
  return { queued, heldByRate: queued - heldBySlot, heldBySlot, executing };
}

function sumOf(a: ToolLoad, b: ToolLoad): ToolLoad {
  return {
    queued: a.queued + b.queued,
    heldByRate: a.heldByRate + b.heldByRate,
    heldBySlot: a.heldBySlot + b.heldBySlot,
    executing: a.executing + b.executing,
  };
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
