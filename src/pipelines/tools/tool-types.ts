import type { Observable } from 'rxjs';
import { check } from '../../../operators/build.js';
import type { Classify, RetryOptions, Usage } from '../../../operators/index.js';

/** One thing that is wrong with the arguments of a call. */
export interface ToolIssue {
  /** Where, as `a.0.b`; empty for the arguments as a whole. */
  readonly path: string;
  /** What the schema says about it. */
  readonly message: string;
}

/** What a {@link https://standardschema.dev Standard Schema} answers. */
export type SchemaAnswer<A> =
  | { readonly value: A; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly unknown[] | undefined }[] };

/**
 * What checks the arguments of a tool: a zod schema, any other Standard Schema, or anything with a `safeParse` like zod's.
 * @beta
 */
export type ToolSchema<A> =
  | {
      readonly '~standard': {
        readonly types?: { readonly output: A } | undefined;
        readonly validate: (input: unknown) => SchemaAnswer<A> | PromiseLike<SchemaAnswer<A>>;
      };
    }
  | {
      safeParse(input: unknown):
        | { readonly success: true; readonly data: A }
        | {
            readonly success: false;
            readonly error: { readonly issues: readonly { readonly message: string; readonly path?: readonly unknown[] }[] };
          };
    };

/** What a tool may answer: a value, or something that has one later. The last value counts. A text or a list is a value. */
export type ToolOutput<R> = R | PromiseLike<R> | Observable<R> | AsyncIterable<R>;

/**
 * Context of a tool's call. `X` is the `context` it needs.
 * @beta
 */
export interface ToolContext<X = unknown> {
  /** Id of the call. A tool with effects can send it along, so that the other side knows a second attempt. */
  readonly id: string;
  /** 1 on the first attempt. */
  readonly attempt: number;
  /** Aborts when the attempt has timed out or the result is no longer needed. Made on the first look. */
  readonly signal: AbortSignal;
  /** Tells the runner's budget what the call has used, of a tool with a `cost`. */
  readonly settle: (usage: Usage) => void;
  /** The `context` given to `run`, `runAllAsync` or `mapCalls`, for example the user and the workspace. Handed on unchanged, the same for every attempt. */
  readonly context: X;
  /**
   * Makes other calls in the same runner, under the same limits and the same guard, and emits their results once all are over. Only for a
   * tool with `runsTools`; such a tool cannot be called in this way itself. They have the same `context`. Errors when the signal aborts.
   */
  readonly run: (calls: readonly ToolCall[]) => Observable<ToolRun>;
}

declare const needs: unique symbol;

/**
 * A tool a model may call. `defineTool` infers its types: `A` of its arguments, `R` of its answer, `X` of the `context` its calls need.
 * @beta
 */
export interface Tool<A = unknown, R = unknown, in X = unknown> {
  /** What the model calls it. */
  readonly name: string;
  /** What the model reads about it. */
  readonly description: string;
  /** Checks the arguments before anything else looks at them. */
  readonly parameters: ToolSchema<A>;
  /**
   * JSON Schema of the arguments, which the model reads; for `parameters` that do not give one. `toToolDefinitions` takes it before all else.
   * @defaultValue what the `parameters` say: Standard JSON Schema (zod 4.2 and later), or the `inputSchema` of a tool from an MCP server
   */
  readonly jsonSchema?: object;
  /** Does the work. A throw, a rejection or an error is a failed call. The arguments are frozen. */
  execute(args: A, context: ToolContext<X>): ToolOutput<R>;
  /** Makes the text for the model of what `execute` answered. @defaultValue a text as it is, everything else as JSON */
  format?(value: R): string;
  /**
   * Tokens that a call takes at most, for the `budget` of its runner: each attempt is charged under the tool's name, `{}` for a tool that costs something
   * by the call. @defaultValue none: its calls are not charged
   */
  cost?(args: A): Usage;
  /** Most calls of this tool at a time. A full tool never blocks another. @defaultValue Infinity: only the runner's `concurrency` counts */
  readonly concurrency?: number;
  /** Longest attempt, in ms. @defaultValue the runner's `timeoutMs` */
  readonly timeoutMs?: number;
  /** Changes nothing, so that it may be tried again. A guard can see it. @defaultValue false */
  readonly readOnly?: boolean;
  /** A second attempt does no harm: a failure that may pass is tried again. @defaultValue the same as `readOnly` */
  readonly idempotent?: boolean;
  /** How this tool is tried again, whatever `idempotent` says. @defaultValue the runner's `retry` for an idempotent tool, else false */
  readonly retry?: RetryOptions | false;
  /** Tells the failures of this tool that may pass from others; only together with its own `retry`. @defaultValue the runner's `classify` */
  readonly classify?: Classify;
  /** Its work is to make other calls with `context.run`. It takes no slot, because those need them. @defaultValue false */
  readonly runsTools?: boolean;
  /** Only in types, never there: a tool that needs a context must not get into a runner without one, and a method alone would let it. */
  readonly [needs]?: (context: X) => void;
}

/**
 * A tool of whatever types.
 * @beta
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- whichever context it needs: its runner has seen to that
export type AnyTool = Tool<unknown, unknown, any>;

/**
 * What a model asks for, as Anthropic's `tool_use` blocks have it.
 * @beta
 */
export interface ToolCall {
  /** Tells its result from all others. */
  readonly id: string;
  /** Of the tool. */
  readonly name: string;
  readonly input: unknown;
}

/** The call a guard judges: its arguments are the checked ones, frozen, and the very same object that is executed. */
export interface GuardedCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

/** Context of a guard. `X` is the `context` of the call. */
export interface GuardContext<X = unknown> {
  /** The attempt that is to start: 1 on the first. */
  readonly attempt: number;
  /** Aborts when the call is cancelled while the guard still decides. Made on the first look. */
  readonly signal: AbortSignal;
  readonly tool: AnyTool;
  /** What `run`, `runAllAsync` or `mapCalls` was given as `context`. */
  readonly context: X;
}

/**
 * Whether a call may be made: yes, no, or no with a reason for the model. Only true allows the call.
 * @beta
 */
export type ToolGuard<X = unknown> = (call: GuardedCall, context: GuardContext<X>) => ToolOutput<boolean | string>;

/** Why a call failed; what to switch on. */
export type ToolErrorCode =
  | 'unknown_tool'
  | 'invalid_arguments'
  | 'duplicate_id'
  | 'nested_batch'
  | 'permission_denied'
  | 'budget_exceeded'
  | 'queue_full'
  | 'timeout'
  | 'cancelled'
  | 'closed'
  | 'failed'
  | 'unreadable_result';

/**
 * The report to the model about a failed call.
 * @beta
 */
export interface ToolError {
  readonly code: ToolErrorCode;
  readonly message: string;
  /** What is wrong with the arguments, under `invalid_arguments`. */
  readonly issues?: readonly ToolIssue[];
  /** The tools there are, under `unknown_tool`. */
  readonly available?: readonly string[];
}

interface AnyToolResult {
  readonly type: 'tool_result';
  /** Id of the call. */
  readonly tool_use_id: string;
  /** Of the tool. */
  readonly name: string;
  /** What the model reads: the output as text, or the error as JSON. */
  readonly content: string;
  /** Position of the call in its request, from 0. */
  readonly index: number;
  /** How often the tool was started, but for starts that were refused (429) and made again; 0 when it never was. */
  readonly attempts: number;
  /** From acceptance to the result, waiting included. */
  readonly durationMs: number;
}

export interface ToolSuccess extends AnyToolResult {
  readonly is_error: false;
  /** What the tool answered, whole. */
  readonly value: unknown;
  /** `content` was cut to `maxResultChars`. */
  readonly isTruncated: boolean;
}

export interface ToolFailure extends AnyToolResult {
  readonly is_error: true;
  readonly error: ToolError;
  /** What was thrown, for your own eyes: the model does not see it. */
  readonly cause: unknown;
}

/**
 * What became of one call. Every call gets exactly one.
 * @beta
 */
export type ToolResult = ToolSuccess | ToolFailure;

/** What became of several calls, in numbers. */
export interface ToolSummary {
  readonly total: number;
  readonly successful: number;
  readonly failed: number;
  /** From the first call to the last result, in ms. */
  readonly durationMs: number;
  /** In the order of the calls. */
  readonly details: readonly { readonly id: string; readonly tool: string; readonly success: boolean }[];
}

/**
 * Several calls that are over.
 * @beta
 */
export interface ToolRun {
  /** In the order of the calls. */
  readonly results: readonly ToolResult[];
  readonly summary: ToolSummary;
}

export const TOOL_OPTIONS: readonly string[] = [
  ...['name', 'description', 'parameters', 'jsonSchema', 'execute', 'format', 'concurrency', 'timeoutMs', 'cost'],
  ...['readOnly', 'idempotent', 'retry', 'classify', 'runsTools'],
];

/**
 * A tool with its types inferred from its schema. Returns what it is given.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown; `createToolRunner` checks the rest.
 * @example
 * ```ts
 * import { defineTool } from 'sluice';
 * import * as z from 'zod';
 *
 * const add = defineTool({
 *   name: 'add',
 *   description: 'Adds two numbers.',
 *   parameters: z.object({ a: z.number(), b: z.number() }),
 *   execute: ({ a, b }) => a + b,
 * });
 * add.execute.length; // => 1
 * ```
 */
export function defineTool<A, R, X = unknown>(tool: Tool<A, R, X>): Tool<A, R, X> {
  check.onlyKnown('defineTool', tool, TOOL_OPTIONS, 'tool');
  return tool;
}
