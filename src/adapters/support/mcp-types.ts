import type { Observable } from 'rxjs';
import type { Handle, LimiterSnapshot } from '../../../operators/index.js';
import type { CallJob } from './call-job.js';
import type { CallRules } from './call-rules.js';

/**
 * What a server says about a tool, as both majors of the client type it. Only hints: believe them of servers that you trust.
 * @stable
 */
export interface McpTool {
  readonly name: string;
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  /** JSON Schema of its arguments. */
  readonly inputSchema: object;
  readonly annotations?: { readonly readOnlyHint?: boolean | undefined; readonly idempotentHint?: boolean | undefined } | undefined;
}

/**
 * What a tool has answered, as far as it is looked at here.
 * @stable
 */
export interface McpResult {
  readonly content: readonly { readonly type: string; readonly text?: unknown }[];
  readonly structuredContent?: unknown;
  /** The tool ran and reports a failure of its own: a result, and not an error. */
  readonly isError?: boolean | undefined;
}

/** A call of a tool. */
export interface McpCall {
  /** Of the tool. */
  readonly name: string;
  readonly arguments?: Record<string, unknown>;
  readonly _meta?: Record<string, unknown>;
}

/** How far a tool says it has come. */
export interface McpProgress {
  readonly progress: number;
  readonly total?: number | undefined;
  readonly message?: string | undefined;
}

/**
 * What is different for one call.
 * @stable
 */
export interface McpCallOptions {
  /** Longest silence of this call, in ms. @defaultValue that of the caller */
  readonly maxSilenceMs?: number;
  /** Cancels the call with the signal's reason: a waiting call is never sent, a running call is cancelled at the server. */
  readonly signal?: AbortSignal;
  /** Called with the tool's progress. Its errors go to the client's `onerror`. @defaultValue none */
  readonly onProgress?: (progress: McpProgress) => void;
}

/** @stable */
export interface McpCallerOptions<T extends McpTool = McpTool> extends CallRules {
  /**
   * Longest silence of an attempt, in ms, after which it fails with the client's own timeout error: it begins with the permit, and anew with every progress that the
   * tool reports; it does not run while a request of the server (elicitation, sampling, roots) waits for its answer. `timeoutMs` is the longest attempt whatever the tool reports. @defaultValue 60000, as the client's own
   */
  readonly maxSilenceMs?: number;
  /**
   * What the server's tools are: `annotations.readOnlyHint` says which tools may run beside others, it and `idempotentHint` which may be retried. A
   * tool that is not listed may neither. @defaultValue the server is asked before the first call, and again when it says that they have changed
   */
  readonly tools?: readonly T[];
  /** Most calls of read-only tools at a time. @defaultValue 8 */
  readonly readConcurrency?: number;
  /** Most calls of all other tools at a time. @defaultValue 1: one after the other, in the order of the calls */
  readonly writeConcurrency?: number;
  /** Most calls waiting, of each of the two kinds; 0 = what cannot start at once is refused. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** Lane, key and cost of a call under the `limiter`: the same for all, or by the name of the tool. @defaultValue the last, least urgent lane */
  readonly job?: CallJob | ((tool: string) => CallJob);
}

/** @stable */
export interface McpCallerSnapshot {
  /** Calls accepted and not over, whatever they are doing. */
  readonly open: number;
  /** The limiter of read-only tools. */
  readonly reads: LimiterSnapshot;
  /** The limiter of all others. */
  readonly writes: LimiterSnapshot;
}

/**
 * Calls tools of one server.
 * @stable
 */
export interface McpCaller<R extends McpResult = McpResult, T extends McpTool = McpTool> extends Handle {
  /**
   * Calls the tool for every subscriber, emits its result and completes.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when there is no name, or an option is unknown or out of range
   */
  callTool(call: McpCall, options?: McpCallOptions): Observable<R>;
  /** The same as a promise. */
  callToolAsync(call: McpCall, options?: McpCallOptions): Promise<R>;
  /** What the server's tools are, all pages of them; asks only when that is not known. Rejects with the error of the client. */
  listTools(): Promise<readonly T[]>;
  /** Forgets what the server's tools are. With the option `tools` there is nothing to forget. */
  refreshTools(): void;
  snapshot(): McpCallerSnapshot;
}
