import type { SchedulerLike } from 'rxjs';
import type { teller } from '../../../operators/build.js';
import { check } from '../../../operators/build.js';
import type { Classify, FlowEvent, Limiter, Policy, RetryOptions } from '../../../operators/index.js';
import { childOf, FlowConfigError, isFlowError, policy } from '../../../operators/index.js';
import { retryOf } from '../../retry.js';
import type { BudgetPort } from '../budget/budget-types.js';
import { type AnyTool, TOOL_OPTIONS, type ToolGuard } from './tool-types.js';

/** What the runner calls itself in errors and events. */
export const NAME = 'createToolRunner';

/** A tool with everything its calls need. */
export interface ToolSetup {
  /** As it was when it was given; its functions are called on the original. */
  readonly tool: AnyTool;
  readonly original: AnyTool;
  /** Gives its slots; undefined for a tool that takes none. */
  readonly limiter: Limiter | undefined;
  readonly timeoutMs: number;
  /** Makes the attempts of its calls. */
  readonly attempts: Policy;
}

export type Teller = NonNullable<ReturnType<typeof teller>>;

/** What is the same for all tools. */
export interface RunnerConfig {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the context of a run, which is only handed on
  readonly guard: ToolGuard<any> | undefined;
  readonly budget: BudgetPort | undefined;
  /** Lane of a shared limiter. */
  readonly lane: string | undefined;
  /** Longest attempt, and longest wait for a guard. */
  readonly timeoutMs: number;
  readonly maxResultChars: number;
  /** Undefined without a listener. */
  readonly tell: Teller | undefined;
  /** Waits for an answer no longer than `timeoutMs`. */
  readonly limited: Policy;
}

/** What a tool has when it says nothing itself. */
export interface ToolDefaults {
  readonly timeoutMs: number;
  readonly retry: RetryOptions | false | undefined;
  readonly limiter: Limiter;
  readonly maxQueued: number;
  readonly abortGraceMs: number;
  readonly classify: Classify;
  readonly scheduler: SchedulerLike;
  readonly random: () => number;
  /** Listener for the attempts of calls, and for pauses. */
  readonly heard: (event: FlowEvent) => void;
}

/** The tools a runner begins with, by their names. @throws FlowConfigError for what cannot be used */
export function toolSetups(tools: readonly AnyTool[], defaults: ToolDefaults): ReadonlyMap<string, ToolSetup> {
  // Also looked at when no tool has a use for it.
  retryOf(NAME, defaults.retry, Infinity);
  return withTools(new Map(), tools, defaults);
}

/** Those there are, and more. @throws FlowConfigError for what cannot be used */
export function withTools(
  setups: ReadonlyMap<string, ToolSetup>,
  tools: readonly AnyTool[],
  defaults: ToolDefaults,
): ReadonlyMap<string, ToolSetup> {
  if (!Array.isArray(tools)) throw new FlowConfigError(NAME, 'tools', 'an array', tools);
  const all = new Map(setups);
  for (const [i, tool] of (tools as readonly AnyTool[]).entries()) {
    const at = `tools[${String(i)}]`;
    const setup = toolSetup(at, tool, defaults);
    if (all.has(tool.name)) throw check.misused(NAME, `${at}.name`, `two tools are called \`${tool.name}\``, 'Rename one of them.');
    all.set(tool.name, setup);
  }
  return all;
}

function toolSetup(at: string, tool: AnyTool, defaults: ToolDefaults): ToolSetup {
  check.onlyKnown(NAME, tool, TOOL_OPTIONS, at, `${at}.`);
  const { name, description, parameters, jsonSchema } = tool;
  const { execute, format, cost } = tool as Readonly<Record<'execute' | 'format' | 'cost', unknown>>;
  check.nonEmpty(NAME, `${at}.name`, name);
  check.nonEmpty(NAME, `${at}.description`, description);
  const { safeParse, '~standard': standard } = Object(parameters) as { safeParse?: unknown; '~standard'?: { validate?: unknown } };
  if (typeof safeParse !== 'function' && typeof standard?.validate !== 'function')
    throw new FlowConfigError(NAME, `${at}.parameters`, 'a schema with `safeParse` or `~standard`', parameters);
  if (jsonSchema !== undefined && (typeof jsonSchema !== 'object' || (jsonSchema as unknown) === null))
    throw new FlowConfigError(NAME, `${at}.jsonSchema`, 'an object', jsonSchema);
  check.requiredFunction(NAME, `${at}.execute`, execute);
  check.callback(NAME, `${at}.format`, format);
  check.callback(NAME, `${at}.cost`, cost);
  const readOnly = check.flag(NAME, `${at}.readOnly`, check.orDefault(tool.readOnly, false));
  const idempotent = check.flag(NAME, `${at}.idempotent`, check.orDefault(tool.idempotent, readOnly));
  const runsTools = check.flag(NAME, `${at}.runsTools`, check.orDefault(tool.runsTools, false));
  const classify = check.callback(NAME, `${at}.classify`, tool.classify);
  if (!tool.retry) check.needs(NAME, `${at}.classify`, classify, '`retry` of the same tool');
  const concurrency = check.count(NAME, `${at}.concurrency`, check.orDefault(tool.concurrency, Infinity));
  if (runsTools && concurrency !== Infinity)
    check.excludes(NAME, `${at}.concurrency`, concurrency, '`runsTools`', 'Remove the limit: such a tool takes no slot.');
  const { maxQueued, abortGraceMs, heard: onEvent, scheduler, random } = defaults;
  const limiter = runsTools ? undefined : childOf(defaults.limiter, { concurrency, maxQueued, abortGraceMs, onEvent });
  const timeoutMs = check.positive(NAME, `${at}.timeoutMs`, check.orDefault(tool.timeoutMs, defaults.timeoutMs));
  const isOwn = tool.retry !== undefined;
  const retry = retryOf(NAME, isOwn ? tool.retry : idempotent && defaults.retry, Infinity, isOwn ? `${at}.retry` : 'retry');
  const bound = <F>(method: F): F => (typeof method === 'function' ? (method.bind(tool) as F) : method);
  return {
    tool: {
      ...{ name, description, parameters, ...(jsonSchema && { jsonSchema }), readOnly, idempotent, runsTools },
      ...{ execute: bound(execute), format: bound(format), cost: bound(cost) },
    } as AnyTool,
    original: tool,
    limiter,
    timeoutMs,
    attempts: policy({
      ...(limiter && { limiter }),
      ...(retry && { retry }),
      ...{ operator: NAME, timeoutMs, classify: classify ?? defaults.classify, scheduler, random, onEvent },
    }),
  };
}

/** Whether an error says that a policy of the runner with this time limit has cut something off. */
export function isLate(error: unknown, timeoutMs: number): boolean {
  return isFlowError(error, 'FLOW_ATTEMPT_TIMEOUT') && error.operator === NAME && error.timeoutMs === timeoutMs;
}
