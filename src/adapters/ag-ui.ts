import type { Observable, SchedulerLike } from 'rxjs';
import { check } from '../../operators/build.js';
import type { Limiter, LimiterJob } from '../../operators/index.js';
import { AGUI_DELTAS } from './ag-ui/coalesce-events.js';
import type { AguiFlowEvent } from './ag-ui/run-events.js';
import type { AguiTools } from './ag-ui/run-tools.js';
import { toolMiddleware } from './ag-ui/run-tools.js';
import type { AbandonedRun } from './ag-ui/runs.js';
import { createRuns } from './ag-ui/runs.js';
import { ours } from './ag-ui/streams.js';
import type { AguiFetch, AguiInput, AguiMiddleware, AguiNext, AguiStream } from './ag-ui/types.js';
import type { DeltaOptions } from './support/coalesce-deltas.js';
import { coalesceDeltas, DELTA_DEFAULTS } from './support/coalesce-deltas.js';

export { coalesceEvents } from './ag-ui/coalesce-events.js';
export type { AguiAgent } from './ag-ui/run.js';
export { run$ } from './ag-ui/run.js';
export type { AguiFlowEvent } from './ag-ui/run-events.js';
export type { AbandonedRun } from './ag-ui/runs.js';
export type { AguiEvent, AguiInput, AguiMiddleware, AguiStream } from './ag-ui/types.js';
export type { DeltaOptions } from './support/coalesce-deltas.js';

/** @beta */
export interface AguiFlowOptions {
  /** What sends the requests. @defaultValue the global one */
  readonly fetch?: AguiFetch;
  /** Which runs take each other's place: those with the same key. @defaultValue the thread */
  readonly key?: (input: AguiInput) => unknown;
  /** How fast deltas are handed on by `coalesce`. @defaultValue what `coalesceEvents` does */
  readonly coalesce?: DeltaOptions;
  /** Makes the tool calls of the agent that it has a tool for: one of `createToolRunner`. @defaultValue none: `runTools` does nothing */
  readonly tools?: AguiTools;
  /**
   * How a superseded run ends: `'finished'` with `RUN_FINISHED` and the outcome `cancelled`, which clients before 1.0 take for a success, or `'error'`
   * with `RUN_ERROR` and the code `'cancelled'`. @defaultValue 'finished'
   */
  readonly cancelledAs?: 'finished' | 'error';
  /**
   * Called with a run that was given up, for servers that go on when their connection closes and have a route to stop a run. Its failure is reported
   * as one of an observer. @defaultValue none: the connection is closed
   */
  readonly onSupersede?: (run: AbandonedRun) => unknown;
  /** Each run takes a permit of it, and pays what it has used. @defaultValue none */
  readonly limiter?: Limiter;
  /** How a run asks it: in which lane, and with what `cost` until its usage is known. @defaultValue one request, in the last lane */
  readonly job?: (input: AguiInput) => LimiterJob;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/**
 * The parts of {@link aguiFlow}. They belong together: `fetch` sends what `switchRuns` can stop.
 * @beta
 */
export interface AguiFlow {
  /** For the `fetch` of an `HttpAgent`. */
  readonly fetch: AguiFetch;
  /** For `agent.use`: one run at a time for each key, and each run ends as the protocol wants it. */
  readonly switchRuns: AguiMiddleware;
  /** For `agent.use`: makes tool calls, and puts their results into the run. */
  readonly runTools: AguiMiddleware;
  /** For `agent.use`: merges deltas. */
  readonly coalesce: AguiMiddleware;
  /** What became of each run, from now on. Never ends. */
  readonly events: Observable<AguiFlowEvent>;
}

const NAME = 'aguiFlow';

/**
 * Flow control for an agent of AG-UI: large events instead of a thousand small ones, no run that nobody waits for, tool calls in lanes, and failures
 * that end one run and nothing else. Works with `@ag-ui/client` 1.0 and 0.0.59, beside any copy of RxJS.
 *
 * Use the middlewares in this order; the first one is the outermost: `agent.use(flow.coalesce, flow.switchRuns, flow.runTools)`.
 *
 * - **Supersedes** the run that is under way when another one with its `key` starts: its request is aborted first, then its stream ends with the
 *   ends of all that is open and `RUN_FINISHED` with the outcome `cancelled`. A run that is left is aborted as well.
 * - **Ends** every run: a stream that breaks off has a `RUN_ERROR` with the code `'network'` or `'incomplete'` as its last event.
 * - **Drops** events behind the end of a run, and tells them in `events`.
 * - **Makes** the calls of those tools that `tools` has, as soon as their arguments are there. Each result is a `TOOL_CALL_RESULT` when it is there;
 *   `RUN_FINISHED` waits for the last one. A result of the server goes first. A run that is given up gives up its calls.
 * - **Holds at most** `coalesce.maxChars` characters of text, and the end of a run while its tools work.
 * - **Pays** the `limiter` what the agent says it has used; without that what was estimated, or what has come by then if that is more.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { HttpAgent } from '@ag-ui/client';
 * import { aguiFlow } from 'sluice/ag-ui';
 *
 * const flow = aguiFlow({ coalesce: { maxWaitMs: 16 } });
 * const agent = new HttpAgent({ url: 'https://host/agent', fetch: flow.fetch });
 * agent.use(flow.coalesce, flow.switchRuns, flow.runTools) === agent; // => true
 * ```
 */
export function aguiFlow(options: AguiFlowOptions = {}): AguiFlow {
  const settings = check.options(
    NAME,
    options,
    { cancelledAs: 'finished' },
    {
      fetch: check.callback,
      key: check.callback,
      coalesce: check.unchecked,
      tools: check.madeBy('run', 'a tool runner', undefined),
      cancelledAs: check.oneOf('finished', 'error'),
      onSupersede: check.callback,
      limiter: check.limiter,
      job: check.callback,
      scheduler: check.scheduler,
    },
  );
  const { scheduler, tools } = settings;
  const merging = coalesceDeltas(NAME, AGUI_DELTAS, settings.coalesce, 'coalesce.', { ...DELTA_DEFAULTS, scheduler });
  return {
    ...createRuns(settings),
    runTools: toolMiddleware(tools),
    coalesce: <I extends AguiInput, O extends AguiStream>(input: I, next: AguiNext<I, O>): O =>
      merging(ours(next.run(input))) as unknown as O,
  };
}
