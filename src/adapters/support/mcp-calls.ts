import { catchError, ignoreElements, lastValueFrom, merge, Observable, of, ReplaySubject, share, switchMap, takeUntil } from 'rxjs';
import { captureContext } from '#async-context';
import { AbortCalls, check, connect, type Shutdown, ShutdownHandle } from '../../../operators/build.js';
import type { Limiter } from '../../../operators/index.js';
import { AttemptTimeoutError, ClosedError, childOf, classifyError, createLimiter } from '../../../operators/index.js';
import { callOptionsOf } from './call-job.js';
import type { CallPolicy } from './call-rules.js';
import { callPolicy } from './call-rules.js';
import type { McpLink } from './mcp-link.js';
import { askingOnce, carefully } from './mcp-link.js';
import { callerOptions, LONGEST_MS, NAME, OWN, requestOf, silenceOf } from './mcp-options.js';
import type {
  McpCall,
  McpCaller,
  McpCallerOptions,
  McpCallerSnapshot,
  McpCallOptions,
  McpProgress,
  McpResult,
  McpTool,
} from './mcp-types.js';
import type { CallTimes } from './mcp-watch.js';
import { watchedCall } from './mcp-watch.js';

/** Something asked of the caller that is not over. */
interface Open {
  wasSent: boolean;
  giveUp(error: unknown): void;
}

type Tools<T> = ReadonlyMap<string, T>;

/** Calls of one server's tools, whichever version of the client makes them. */
export class FlowMcpCaller<R extends McpResult, T extends McpTool> extends ShutdownHandle implements McpCaller<R, T> {
  protected override readonly shutdown: Shutdown;
  readonly #link: McpLink<R, T>;
  readonly #config: ReturnType<typeof callerOptions<T>>;
  readonly #reads: Limiter;
  readonly #writes: Limiter;
  /** Bounds the calls that wait for the list of tools: as many as could run or wait if all of them were read-only. Grants nothing. */
  readonly #lobby: Limiter;
  /** For the list of tools, for read-only ones, for others that may be called twice, and for all the rest. */
  readonly #policies: Readonly<Record<'list' | 'read' | 'repeat' | 'once', CallPolicy>>;
  readonly #optionsOf: ReturnType<typeof callOptionsOf<string>>;
  readonly #stopListening: () => void;
  readonly #signals = new AbortCalls();
  readonly #open = new Set<Open>();
  /** The tools of the server; undefined until they are first needed. */
  #tools: Observable<Tools<T>> | undefined;

  constructor(link: McpLink<R, T>, options: McpCallerOptions<T>, maxSilenceMs: number) {
    super();
    const list = callPolicy(NAME, options, OWN, 'tool');
    const { job, limiter, scheduler, classify = classifyError } = options;
    const config = callerOptions(options, maxSilenceMs);
    const { tools, maxQueued, readConcurrency, writeConcurrency } = config;
    const limiterOf = (concurrency: number): Limiter =>
      limiter ? childOf(limiter, { concurrency, maxQueued }) : createLimiter({ concurrency, maxQueued, ...(scheduler && { scheduler }) });
    const policyOf = (under: Limiter, rules: Partial<McpCallerOptions> = {}): CallPolicy =>
      // An attempt watches its time itself.
      callPolicy(NAME, { ...options, classify: askingOnce(classify), ...rules, timeoutMs: Infinity, limiter: under }, OWN, 'tool');
    this.#link = link;
    this.#config = config;
    this.#reads = limiterOf(readConcurrency);
    this.#writes = limiterOf(writeConcurrency);
    this.#lobby = createLimiter({ maxQueued: maxQueued + this.#reads.concurrency });
    this.#lobby.pause();
    this.#policies = {
      list,
      read: policyOf(this.#reads),
      repeat: policyOf(this.#writes),
      once: policyOf(this.#writes, { classify: askingOnce(carefully(classify)) }),
    };
    this.#optionsOf = callOptionsOf<string>(NAME, { ...(limiter && { limiter }), ...(job !== undefined && { job }) }, () => undefined);
    this.#tools = tools && of(byName(tools));
    this.#stopListening = tools
      ? () => undefined
      : link.onToolsChanged(() => {
          this.refreshTools();
        });
    this.shutdown = this.shutdownOf({
      operator: NAME,
      scheduler,
      stop: () => {
        this.#checkDrained();
      },
      abort: (error) => {
        this.#giveUp(error);
      },
    });
  }

  callTool(call: McpCall, how: McpCallOptions = {}): Observable<R> {
    const name = check.nonEmpty(NAME, 'name', (Object(call) as Partial<McpCall>).name);
    const request = requestOf(how, this.#config.maxSilenceMs);
    const { timeoutMs, scheduler } = this.#config;
    const times: CallTimes = {
      ...{ maxSilenceMs: silenceOf(how, this.#config.maxSilenceMs), timeoutMs, scheduler },
      late: (ms) => new AttemptTimeoutError(NAME, ms),
      silent: (ms) => this.#link.silent(ms),
    };
    const sendOnce = (signal: AbortSignal, heard: () => void): Promise<R> => {
      const onprogress = (progress: McpProgress): void => {
        heard();
        request.onprogress(progress);
      };
      return this.#link.call(call, { ...request, signal, timeout: LONGEST_MS, onprogress });
    };
    return this.#watched(how.signal, (open) => {
      // The list of tools may come in the context of another call.
      const context = captureContext();
      const send = (signal: AbortSignal): Promise<R> =>
        context.run(() => watchedCall(this.#link.client, times, sendOnce, signal), undefined);
      // What is not known is not read-only. When the connection is gone, the call itself tells.
      const known = this.#known().pipe(catchError(() => of<Tools<T>>(new Map())));
      return merge(known, this.#lobby.acquire().pipe(ignoreElements(), takeUntil(known))).pipe(
        switchMap((tools) => this.#send(open, tools.get(name), send)),
      );
    });
  }

  callToolAsync(call: McpCall, how?: McpCallOptions): Promise<R> {
    return lastValueFrom(this.callTool(call, how));
  }

  async listTools(): Promise<readonly T[]> {
    const tools = await lastValueFrom(this.#watched(undefined, () => this.#known()));
    return [...tools.values()];
  }

  refreshTools(): void {
    if (this.#config.tools === undefined) this.#tools = undefined;
  }

  snapshot(): McpCallerSnapshot {
    return { open: this.#open.size, reads: this.#reads.snapshot(), writes: this.#writes.snapshot() };
  }

  /** Asked once for all calls; the answer is kept, a failure is not. */
  #known(): Observable<Tools<T>> {
    const request = requestOf({}, this.#config.maxSilenceMs);
    this.#tools ??= this.#policies
      .list(
        async ({ signal }) => {
          const tools = byName(await this.#link.list({ ...request, signal }));
          // What a client says that is not connected yet, or a server that is not ready.
          if (tools.size === 0) this.refreshTools();
          return tools;
        },
        this.#optionsOf('', undefined),
      )
      .pipe(share({ connector: () => new ReplaySubject(1), resetOnComplete: false }));
    return this.#tools;
  }

  #send(open: Open, tool: T | undefined, send: (signal: AbortSignal) => Promise<R>): Observable<R> {
    const { readOnlyHint, idempotentHint } = tool?.annotations ?? {};
    const mayRepeat = idempotentHint === true ? 'repeat' : 'once';
    const kind = readOnlyHint === true ? 'read' : mayRepeat;
    return this.#policies[kind](
      ({ signal }) => {
        open.wasSent = true;
        return send(signal);
      },
      { ...this.#optionsOf(tool?.name ?? '', undefined), idempotent: kind !== 'once' },
    );
  }

  /** Makes it part of this handle: its signal ends it, and so does closing. */
  #watched<V>(signal: AbortSignal | undefined, start: (open: Open) => Observable<V>): Observable<V> {
    return new Observable((subscriber) => {
      const giveUp = (error: unknown): void => {
        subscriber.error(error);
      };
      if (this.shutdown.isClosed) giveUp(new ClosedError(NAME));
      else if (signal) this.#signals.stop(signal, subscriber, giveUp);
      if (subscriber.closed) return;
      const open: Open = { wasSent: false, giveUp };
      this.#open.add(open);
      subscriber.add(() => {
        this.#open.delete(open);
        this.#checkDrained();
      });
      connect(start(open), subscriber, {
        next: (value) => {
          subscriber.next(value);
        },
        error: (error) => {
          this.shutdown.count('done');
          subscriber.error(error);
        },
        complete: () => {
          this.shutdown.count('done');
          subscriber.complete();
        },
      });
    });
  }

  #giveUp(error: unknown): void {
    for (const open of [...this.#open]) {
      this.shutdown.count(open.wasSent ? 'aborted' : 'dropped');
      open.giveUp(error);
    }
    this.#checkDrained();
  }

  #checkDrained(): void {
    if (!this.shutdown.isClosed || this.#open.size > 0 || !this.shutdown.finish()) return;
    this.#stopListening();
    this.#reads.close();
    this.#writes.close();
  }
}

function byName<T extends McpTool>(tools: readonly T[]): Tools<T> {
  return new Map(tools.map((tool) => [tool.name, tool]));
}
