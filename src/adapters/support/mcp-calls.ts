import { catchError, firstValueFrom, Observable, of, ReplaySubject, share, switchMap } from 'rxjs';
import { createLimiter } from '../../../operators/create-limiter.js';
import type { AttemptPolicy } from '../../../operators/policy.js';
import { requiredSignal } from '../../../operators/support/abort.js';
import { connect } from '../../../operators/support/connect.js';
import { ClosedError, FlowConfigError, OverflowError } from '../../../operators/support/errors.js';
import { laneOption } from '../../../operators/support/limiting/limiter-option.js';
import type { Limiter, LimiterJob } from '../../../operators/support/limiting/limiter-types.js';
import { passLastValue } from '../../../operators/support/limiting/limiter-work.js';
import { callback, count, countFromZero, filled, known, positive } from '../../../operators/support/options.js';
import { Shutdown, ShutdownHandle } from '../../../operators/support/shutdown.js';
import { AbortCalls } from '../../../operators/support/signal-groups.js';
import { CALL_RULES_DEFAULTS, callPolicy } from './call-rules.js';
import type { McpLink, McpRequest } from './mcp-link.js';
import { carefully } from './mcp-link.js';
import type { McpCall, McpCaller, McpCallerOptions, McpCallerSnapshot, McpCallOptions, McpResult, McpTimeouts, McpTool } from './mcp-types.js';

/** What `createMcpCaller` does when an option is left out; the rest is that of `policy`. */
export const MCP_RULES = { ...CALL_RULES_DEFAULTS, readConcurrency: 8, writeConcurrency: 1, maxQueued: 1000 } as const;

const NAME = 'createMcpCaller';
const TIMEOUTS = ['timeoutMs', 'maxTotalTimeoutMs'] as const;
const OWN = ['tools', 'readConcurrency', 'writeConcurrency', 'maxQueued', 'lane', ...TIMEOUTS];
/** The longest that a timer of the platform takes, in ms. */
const LONGEST_MS = 2 ** 31 - 1;

/** A call that is not over. */
interface Call {
  /** How it is to be made is known. */
  isPlaced: boolean;
  wasSent: boolean;
  giveUp(error: unknown): void;
}

type Tools<T> = ReadonlyMap<string, T>;

export class FlowMcpCaller<R extends McpResult, T extends McpTool> extends ShutdownHandle implements McpCaller<R, T> {
  protected override readonly shutdown: Shutdown;
  readonly #link: McpLink<R, T>;
  readonly #timeouts: Required<McpTimeouts>;
  readonly #reads: Limiter;
  readonly #writes: Limiter;
  readonly #policies: Readonly<Record<'list' | 'read' | 'repeat' | 'once', AttemptPolicy>>;
  readonly #job: { readonly job?: LimiterJob };
  readonly #given: Observable<Tools<T>> | undefined;
  readonly #maxQueued: number;
  readonly #stopListening: () => void;
  readonly #signals = new AbortCalls();
  readonly #calls = new Set<Call>();
  /** What the server said, or is being asked. */
  #listed: Observable<Tools<T>> | undefined;

  constructor(link: McpLink<R, T>, options: McpCallerOptions<T>, timeoutMs: number) {
    super();
    const list = callPolicy(NAME, options, OWN);
    const { tools, limiter, scheduler, lane } = options;
    const { readConcurrency, writeConcurrency, maxQueued } = limits(options);
    this.#link = link;
    this.#timeouts = timeouts(options, { timeoutMs, maxTotalTimeoutMs: Infinity });
    this.#maxQueued = maxQueued;
    this.#given = tools && of(byName(toolList(tools)));
    const job = { ...(laneOption(NAME, lane, limiter) !== undefined && { lane }) } as LimiterJob;
    const all = limiter ?? createLimiter(scheduler ? { scheduler } : {});
    this.#reads = all.child({ concurrency: readConcurrency, maxQueued });
    this.#writes = all.child({ concurrency: writeConcurrency, maxQueued });
    this.#job = limiter ? { job } : {};
    const policyOf = (under: Limiter, rules?: Partial<McpCallerOptions>): AttemptPolicy =>
      callPolicy(NAME, { ...options, ...rules, limiter: under }, OWN);
    this.#policies = {
      list,
      read: policyOf(this.#reads),
      repeat: policyOf(this.#writes),
      once: policyOf(this.#writes, { classify: carefully(options.classify) }),
    };
    this.#stopListening = tools
      ? () => undefined
      : link.onToolsChanged(() => {
          this.refreshTools();
        });
    this.shutdown = new Shutdown({
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

  callTool(params: McpCall, how: McpCallOptions = {}): Observable<R> {
    filled(NAME, 'name', (Object(params) as Partial<McpCall>).name);
    const request = this.#request(how);
    const { signal } = how;
    return new Observable((subscriber) => {
      if (this.shutdown.isClosed) {
        subscriber.error(new ClosedError(NAME));
        return;
      }
      const giveUp = (error: unknown): void => {
        subscriber.error(error);
      };
      if (signal) this.#signals.stop(signal, subscriber, giveUp);
      if (!subscriber.closed && this.#isCrowded()) subscriber.error(new OverflowError(NAME, this.#maxQueued, 'error'));
      if (subscriber.closed) return;
      const call: Call = { isPlaced: false, wasSent: false, giveUp };
      this.#calls.add(call);
      subscriber.add(() => {
        this.#calls.delete(call);
        this.#checkDrained();
      });
      const answer = this.#tools().pipe(
        // What is not known is not read-only. When the connection is gone, the call itself tells.
        catchError(() => of<Tools<T>>(new Map())),
        switchMap((tools) => this.#place(call, tools.get(params.name), params, request)),
      );
      connect(answer, subscriber, {
        next: (result) => {
          subscriber.next(result);
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

  callToolAsync(params: McpCall, how?: McpCallOptions): Promise<R> {
    return new Promise((resolve, reject) => passLastValue(this.callTool(params, how), resolve, reject));
  }

  async listTools(): Promise<readonly T[]> {
    return [...(await firstValueFrom(this.#tools())).values()];
  }

  refreshTools(): void {
    this.#listed = undefined;
  }

  snapshot(): McpCallerSnapshot {
    return { open: this.#calls.size, reads: this.#reads.snapshot(), writes: this.#writes.snapshot() };
  }

  /** Asked once for everybody; the answer stays, a failure does not. */
  #tools(): Observable<Tools<T>> {
    const request = this.#request({});
    this.#listed ??= this.#policies
      .list(async ({ signal }) => byName(await this.#link.list({ ...request, signal })), this.#job)
      .pipe(share({ connector: () => new ReplaySubject(1), resetOnComplete: false }));
    return this.#given ?? this.#listed;
  }

  #place(call: Call, tool: T | undefined, params: McpCall, request: Omit<McpRequest, 'signal'>): Observable<R> {
    const { readOnlyHint = false, idempotentHint = false } = tool?.annotations ?? {};
    const kind = readOnlyHint ? 'read' : idempotentHint ? 'repeat' : 'once';
    call.isPlaced = true;
    return this.#policies[kind](
      ({ signal }) => {
        call.wasSent = true;
        return this.#link.call(params, { ...request, signal });
      },
      { ...this.#job, idempotent: kind !== 'once' },
    );
  }

  /** The list of tools is waited for by as many as could run or wait if they were all read-only. */
  #isCrowded(): boolean {
    let waiting = 0;
    for (const { isPlaced } of this.#calls) if (!isPlaced) waiting++;
    return waiting > 0 && waiting >= this.#maxQueued + this.#reads.concurrency;
  }

  #request(how: McpCallOptions): Omit<McpRequest, 'signal'> {
    known(NAME, how, ['signal', 'onProgress', ...TIMEOUTS], 'call options');
    if (how.signal !== undefined) requiredSignal(NAME, 'signal', how.signal);
    const { timeoutMs, maxTotalTimeoutMs } = timeouts(how, this.#timeouts);
    return {
      timeout: Math.min(timeoutMs, LONGEST_MS),
      ...(maxTotalTimeoutMs !== Infinity && { maxTotalTimeout: maxTotalTimeoutMs }),
      resetTimeoutOnProgress: true,
      onprogress: callback(NAME, 'onProgress', how.onProgress) ?? (() => undefined),
    };
  }

  #giveUp(error: unknown): void {
    for (const call of [...this.#calls]) {
      this.shutdown.count(call.wasSent ? 'aborted' : 'dropped');
      call.giveUp(error);
    }
    this.#checkDrained();
  }

  #checkDrained(): void {
    if (!this.shutdown.isClosed || this.#calls.size > 0 || !this.shutdown.finish()) return;
    this.#stopListening();
    this.#reads.close();
    this.#writes.close();
  }
}

function limits(options: McpCallerOptions<never>) {
  const { readConcurrency, writeConcurrency, maxQueued } = { ...MCP_RULES, ...options };
  return {
    readConcurrency: count(NAME, 'readConcurrency', readConcurrency),
    writeConcurrency: count(NAME, 'writeConcurrency', writeConcurrency),
    maxQueued: countFromZero(NAME, 'maxQueued', maxQueued),
  };
}

function timeouts(given: McpTimeouts, defaults: Required<McpTimeouts>): Required<McpTimeouts> {
  const { timeoutMs = defaults.timeoutMs, maxTotalTimeoutMs = defaults.maxTotalTimeoutMs } = given;
  return {
    timeoutMs: positive(NAME, 'timeoutMs', timeoutMs),
    maxTotalTimeoutMs: positive(NAME, 'maxTotalTimeoutMs', maxTotalTimeoutMs),
  };
}

function toolList<T>(tools: readonly T[]): readonly T[] {
  if (Array.isArray(tools)) return tools;
  throw new FlowConfigError(NAME, 'tools', 'a list of tools', tools);
}

function byName<T extends McpTool>(tools: readonly T[]): Tools<T> {
  return new Map(tools.map((tool) => [tool.name, tool]));
}
