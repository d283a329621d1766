import type { Observable, OperatorFunction, SchedulerLike } from 'rxjs';
import type { Classify, FlowEvent, FlowSink, Handle, Limiter, RetryOptions } from '../../../operators/index.js';
import type { BudgetPort } from '../budget/budget-types.js';
import type { Tool, ToolCall, ToolGuard, ToolResult, ToolRun } from './tool-types.js';

/**
 * `X` is the `context` that calls are made with.
 * @beta
 */
export interface ToolRunnerOptions<X = unknown> {
  /** What a model may call. */
  readonly tools: readonly Tool<unknown, unknown, X>[];
  /**
   * Most calls at a time, over all tools; beside a `limiter`, most of its slots that these calls take.
   * @defaultValue 5; with a `limiter`, as many as it has
   */
  readonly concurrency?: number;
  /** A limiter shared with others: every attempt takes one request and one slot of it. */
  readonly limiter?: Limiter;
  /** Lane of that limiter. @defaultValue that of `withJob`, or else its last one */
  readonly lane?: string;
  /**
   * Asked before every attempt, with its slot in hand: true lets it go, everything else refuses it, and a refusal is never tried again. It sees
   * the checked, frozen arguments the tool gets. @defaultValue none: every call goes
   */
  readonly guard?: ToolGuard<X>;
  /** What calls of tools with `cost` may cost, made by `createBudget`; charged after the guard's yes. @defaultValue none */
  readonly budget?: BudgetPort;
  /** Longest attempt of a call, from its slot to its result, the guard included, in ms; its signal aborts. @defaultValue 30000 */
  readonly timeoutMs?: number;
  /**
   * How calls of tools that are `idempotent` or `readOnly` are tried again. A refusal (429) takes no attempt: the tool pauses, and the call waits.
   * @defaultValue 3 attempts, 200 ms doubling to 20 s with full jitter
   */
  readonly retry?: RetryOptions | false;
  /** Tells failures that may pass from others. @defaultValue `classifyError` */
  readonly classify?: Classify;
  /** Most calls of each tool waiting for a slot; one more has the error `queue_full`. 0 = what cannot start at once. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** Longest `content` of a result; the `value` is kept whole. @defaultValue Infinity */
  readonly maxResultChars?: number;
  /** How long a cancelled tool that cannot be stopped keeps its slot, in ms. @defaultValue 1000 */
  readonly abortGraceMs?: number;
  readonly onEvent?: FlowSink;
  /** What events call this runner, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
  /** Clock and timers. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Source of jitter, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

/**
 * How some calls are to be made.
 * @beta
 */
export interface RunToolsOptions<X = unknown> {
  /** Handed unchanged to the guard and to the tools of these calls, for example the user and the workspace. @defaultValue undefined */
  readonly context?: X;
  /**
   * The tenant or user of the calls: keys take turns, so that a tenant with many calls does not delay the others. With a shared `limiter` inside
   * its lane, when keys share that: in one made by `createAccount`, or with `lanes([...], { key })`. @defaultValue that of `withJob`, or else none
   */
  readonly key?: string;
  /** Cancels unfinished calls when it aborts: they get the error `cancelled`. */
  readonly signal?: AbortSignal;
  /** Longest time for all of them, waiting included, in ms; what is not over then has the error `timeout`. @defaultValue Infinity */
  readonly deadlineMs?: number;
}

/** What a run says of each of its calls. */
export interface RunGiven {
  readonly context: unknown;
  readonly key: string | undefined;
  /** Of `withJob`. */
  readonly lane: string | undefined;
}

/** The options of a run, which may be left out where no tool and no guard needs a `context`. */
export type RunToolsArguments<X> = undefined extends X
  ? [options?: RunToolsOptions<X>]
  : [options: RunToolsOptions<X> & { readonly context: X }];

/** Calls of one tool at one moment. */
export interface ToolLoad {
  /** Waiting for a slot or for the rate. */
  readonly queued: number;
  /** Of those: waiting for requests per minute of a shared limiter, or for a pause the other side asked for. */
  readonly heldByRate: number;
  /** Of those: waiting for a slot. */
  readonly heldBySlot: number;
  /** Holding a slot: under way, or cancelled and still running. */
  readonly executing: number;
}

/** @beta */
export interface ToolRunnerSnapshot extends ToolLoad {
  /** Accepted and not over, whatever they are doing. */
  readonly open: number;
  /** Of those: waiting to be tried again; they hold no slot. */
  readonly backingOff: number;
  /** The same numbers for each tool that takes slots. */
  readonly tools: Readonly<Record<string, ToolLoad>>;
}

/** @beta */
export interface ToolRunner<X = unknown> extends Handle {
  /**
   * Makes the calls and emits each result when it is there; completes when all are. Every call gets exactly one result, failures included: it
   * never errors. Unsubscribing cancels the remaining calls.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `calls` is no list of calls, or an option is unknown or out of range
   */
  run(calls: readonly ToolCall[], ...options: RunToolsArguments<X>): Observable<ToolResult>;
  /** The same as a promise of all results in the order of the calls, and of their summary. Never rejects. */
  runAllAsync(calls: readonly ToolCall[], ...options: RunToolsArguments<X>): Promise<ToolRun>;
  /** The same as an operator, for calls that come as a stream; errors when its source does, or when something in it is no call. */
  mapCalls(...options: RunToolsArguments<X>): OperatorFunction<ToolCall, ToolResult>;
  /** What a model may call now: make its tool definitions of these. A new list whenever tools come or go. */
  readonly tools: readonly Tool<unknown, unknown, X>[];
  /**
   * Lets models call more tools, from the next call on. All of them or, when one cannot be used, none.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when a tool cannot be used, or its name is taken; ClosedError (`FLOW_CLOSED`) after `close` or `drain`
   */
  addTools(tools: readonly Tool<unknown, unknown, X>[]): void;
  /**
   * Takes tools away by their names: calls from now on have the error `unknown_tool`, those that were accepted are made. Names that no tool has
   * are passed over, so that removing twice does no harm.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when `names` is no list of texts
   */
  removeTools(names: readonly string[]): void;
  snapshot(): ToolRunnerSnapshot;
  /** The same events as `onEvent`. Completes when the runner has drained or was closed. */
  readonly events: Observable<FlowEvent>;
}
