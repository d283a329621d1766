import type { OperatorFunction } from 'rxjs';
import { defer, from, map, NEVER, Observable, toArray } from 'rxjs';
import { AbortCalls, Alarm, connect, onAbort, type Shutdown, ShutdownHandle, teller } from '../../../operators/build.js';
import type { FlowEvent, Limiter, LimiterJob, Policy } from '../../../operators/index.js';
import { ClosedError, createLimiter, FlowConfigError, lanes, policy } from '../../../operators/index.js';
import { EventChannel } from '../event-channel.js';
import type { AnyRunnerOptions, CheckedRun } from './runner-options.js';
import { checkedCall, checkedCalls, readOptions, runOptions } from './runner-options.js';
import type { RunGiven, RunToolsArguments, RunToolsOptions, ToolLoad, ToolRunner, ToolRunnerSnapshot } from './runner-types.js';
import type { Phase, ToolJob } from './tool-job.js';
import { runOf } from './tool-results.js';
import type { SessionHost, SessionKind } from './tool-session.js';
import { ToolSession } from './tool-session.js';
import type { RunnerConfig, Teller, ToolDefaults, ToolSetup } from './tool-setup.js';
import { NAME, toolSetups, withTools } from './tool-setup.js';
import type { AnyTool, ToolCall, ToolResult, ToolRun } from './tool-types.js';

/** One lane, whose keys take turns. */
const SHARED_BY_KEY = /* @__PURE__ */ lanes<LimiterJob>([{ name: 'default' }], { key: ({ key }) => key });
/** Of what limiters and policies say of no single call. */
const TOLD: readonly string[] = ['limitChanged', 'throttled', 'hintClamped'];
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
  turningAway = 0;
  readonly #clock: Alarm;
  readonly #tell: Teller;
  readonly #limiter: Limiter;
  readonly #ownsLimiter: boolean;
  protected override readonly shutdown: Shutdown;
  readonly #defaults: ToolDefaults;
  /** Ends what takes longer than its deadline. */
  readonly #timed: Policy;
  /** Calls are being cancelled together. */
  #isPaused = false;
  /** Taken away while calls of them were under way. */
  readonly #leaving = new Set<ToolSetup>();
  /** By their ids in events. */
  readonly #open = new Map<string, ToolJob>();
  /** What ends requests, by their signals. */
  readonly #signals = new AbortCalls((stopAll) => {
    this.together(stopAll);
  });
  #isGivingUp = false;
  #ids = 0;

  constructor(options: AnyRunnerOptions) {
    super();
    const { tools, limiter, onEvent, retry, classify, abortGraceMs, maxQueued, concurrency, name, scheduler, random, ...config } =
      readOptions(options);
    const { timeoutMs } = config;
    this.#clock = new Alarm(scheduler, () => undefined);
    const channel = new EventChannel(onEvent);
    this.events = channel.events;
    const tell = teller(NAME, { onEvent: channel.tell, name }, () => this.now()) as Teller;
    this.#tell = tell;
    this.config = {
      ...config,
      get tell() {
        return channel.isHeard ? tell : undefined;
      },
      limited: policy({ operator: NAME, timeoutMs, scheduler }),
    };
    this.#timed = policy({ operator: NAME, timeoutMs: Infinity, scheduler });
    const heard = (event: FlowEvent): void => {
      if ('batchId' in event) this.#open.get(event.batchId)?.heard(event);
      else if (TOLD.includes(event.type)) tell(event);
    };
    this.#ownsLimiter = limiter === undefined;
    this.#limiter = limiter ?? createLimiter({ concurrency, queue: SHARED_BY_KEY, abortGraceMs, scheduler, onEvent: heard });
    this.#defaults = { timeoutMs, retry, classify, abortGraceMs, maxQueued, scheduler, random, heard, limiter: this.#limiter };
    this.setups = toolSetups(tools, this.#defaults);
    this.#listTools();
    this.shutdown = this.shutdownOf({
      operator: NAME,
      scheduler,
      stop: () => {
        this.checkDrained();
      },
      abort: (error) => {
        this.#isGivingUp = true;
        this.together(() => {
          for (const job of [...this.#open.values()]) job.cancel({ code: 'closed', message: 'the runner was closed' }, error);
        });
        this.checkDrained();
      },
    });
  }

  run(calls: readonly ToolCall[], ...[options]: RunToolsArguments<unknown>): Observable<ToolResult> {
    return this.#results(from(checkedCalls(calls)), this.#checkedRun(options), FROM_OUTSIDE);
  }

  runAllAsync(calls: readonly ToolCall[], ...options: RunToolsArguments<unknown>): Promise<ToolRun> {
    const run = this.#together(this.run(calls, ...options));
    return new Promise((resolve, reject) => {
      run.subscribe({ next: resolve, error: reject });
    });
  }

  mapCalls(...[options]: RunToolsArguments<unknown>): OperatorFunction<ToolCall, ToolResult> {
    const checkedRun = this.#checkedRun(options);
    return (source) => this.#results(source.pipe(map((call) => checkedCall(call, 'call'))), checkedRun, FROM_STREAM);
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
    for (const { tool, limiter } of this.#inUse) {
      if (limiter === undefined) continue;
      const load = loadOf(limiter, executing >= concurrency);
      const before = tools.get(tool.name);
      tools.set(tool.name, before ? sumOf(before, load) : load);
      all.queued += load.queued;
      all.heldByRate += load.heldByRate;
      all.heldBySlot += load.heldBySlot;
      all.executing += load.executing;
    }
    const backingOff = [...this.#open.values()].filter(({ phase, backsOffUntil }) => phase === 'backingOff' && this.now() < backsOffUntil);
    return { open: this.#open.size, backingOff: backingOff.length, ...all, tools: Object.fromEntries(tools) };
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
    this.#open.set(job.about.id, job);
  }

  ended(job: ToolJob, result: ToolResult | undefined): void {
    const { id } = job.about;
    if (result) {
      const isGivenUp = this.#isGivingUp;
      this.tellSettled(result, result.name, id);
      // Calls that their own caller cancelled are in none of the numbers.
      if (isGivenUp) this.shutdown.count(job.wasStarted ? 'aborted' : 'dropped');
      else if (!result.is_error || result.error.code !== 'cancelled') this.shutdown.count('done');
    }
    // A listener may have drained or closed the runner.
    this.#open.delete(id);
    if (this.#leaving.has(job.setup)) this.#checkGone(job.setup);
  }

  tellSettled({ is_error, attempts, durationMs: totalMs }: ToolResult, lane: string, batchId: string): void {
    const outcome = is_error ? 'rejected' : 'fulfilled';
    this.config.tell?.({ type: 'settled', lane, batchId, outcome, attempts, totalMs });
  }

  /** The limiters of tools grant nothing meanwhile. */
  together(giveUp: () => void): void {
    const paused = this.#isPaused ? [] : this.#inUse;
    this.#isPaused = true;
    for (const { limiter } of paused) limiter?.pause();
    try {
      giveUp();
    } finally {
      if (paused.length > 0) this.#isPaused = false;
      for (const { limiter } of paused) limiter?.resume();
    }
  }

  checkDrained(): void {
    if (!this.shutdown.isClosed || this.#open.size + this.turningAway > 0 || !this.shutdown.finish()) return;
    if (this.#ownsLimiter) this.#limiter.close();
    // In a shared limiter, cancelled work that still runs keeps its slot for its grace.
    else for (const { limiter } of this.setups.values()) void limiter?.drain();
    this.#tell({ type: 'drained' });
  }

  runInside(calls: readonly ToolCall[], signal: AbortSignal, given: RunGiven): Observable<ToolRun> {
    return this.#together(this.#results(from(checkedCalls(calls)), { given, deadlineMs: Infinity }, FROM_INSIDE, signal));
  }

  get #inUse(): readonly ToolSetup[] {
    return [...this.setups.values(), ...this.#leaving];
  }

  #checkedRun(options: RunToolsOptions | undefined): CheckedRun {
    return runOptions(options, this.#ownsLimiter ? undefined : this.#limiter.lanes);
  }

  #listTools(): void {
    this.tools = Object.freeze([...this.setups.values()].map(({ tool }) => tool));
  }

  /** A tool that was taken away is forgotten with its last call. */
  #checkGone(setup: ToolSetup): void {
    for (const job of this.#open.values()) if (job.setup === setup) return;
    this.#leaving.delete(setup);
    // Cancelled work that still runs keeps its slot for its grace.
    void setup.limiter?.drain();
  }

  /** Makes the calls of a source. With `lifeline` its abort is an error, and not the result of every call. */
  #results(
    source: Observable<ToolCall>,
    { signal, deadlineMs, given }: CheckedRun,
    kind: SessionKind,
    lifeline?: AbortSignal,
  ): Observable<ToolResult> {
    return new Observable((subscriber) => {
      let hasAll = false;
      const session = new ToolSession(this, { ...kind, deadlineMs }, given, (result) => {
        subscriber.next(result);
        if (hasAll && session.size === 0) subscriber.complete();
      });
      subscriber.add(() => {
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
      if (deadlineMs !== Infinity) {
        const late = (error: unknown): void => {
          session.end({ code: 'timeout', message: `not over within the ${String(deadlineMs)} ms for all calls` }, error);
        };
        subscriber.add(this.#timed(() => NEVER, { deadlineMs }).subscribe({ error: late }));
      }
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

function byIndex(a: ToolResult, b: ToolResult): number {
  return a.index - b.index;
}
