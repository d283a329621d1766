import type { SchedulerLike } from 'rxjs';
import { childOf } from '../../../operators/child-of.js';
import { FlowConfigError } from '../../../operators/errors.js';
import {
  callback,
  count,
  flag,
  nonEmpty,
  onlyKnown,
  orDefault,
  positive,
  Refusals,
  requiredFunction,
  retryRule,
} from '../../../operators/toolkit.js';
import type { Classify, FlowSink, Limiter, RetryOptions, RetryRule } from '../../../operators/types.js';
import type { BudgetPort } from '../budget/budget-types.js';
import type { AnyTool, ToolGuard } from './tool-types.js';

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
  readonly retry: RetryRule | undefined;
  readonly classify: Classify;
  /** What its calls know of the refusals of what the tool asks. */
  readonly refusals: Refusals;
}

/** What is the same for all tools. */
export interface RunnerConfig {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the context of a run, which nobody here looks into
  readonly guard: ToolGuard<any> | undefined;
  readonly budget: BudgetPort | undefined;
  /** Lane of a shared limiter. */
  readonly lane: string | undefined;
  /** Longest attempt, and longest wait for a guard. */
  readonly timeoutMs: number;
  readonly maxQueued: number;
  readonly maxResultChars: number;
  readonly tell: FlowSink;
  readonly scheduler: SchedulerLike;
  readonly random: () => number;
}

/** What a tool has when it says nothing itself. */
export interface ToolDefaults {
  readonly perTool: Readonly<Record<string, number>>;
  readonly timeoutMs: number;
  readonly retry: RetryOptions | false | undefined;
  readonly limiter: Limiter;
  readonly abortGraceMs: number;
  readonly classify: Classify;
}

const TOOL_OPTIONS: readonly string[] = [
  ...['name', 'description', 'parameters', 'execute', 'format', 'concurrency', 'timeoutMs', 'cost'],
  ...['readOnly', 'idempotent', 'retry', 'classify', 'runsTools'],
];

/** The tools a runner begins with, by their names. @throws FlowConfigError for what cannot be used */
export function toolSetups(tools: readonly AnyTool[], defaults: ToolDefaults): ReadonlyMap<string, ToolSetup> {
  // Also looked at when no tool has a use for it.
  retryRule(NAME, defaults.retry, Infinity);
  const setups = withTools(new Map(), tools, defaults);
  for (const name of Object.keys(defaults.perTool)) {
    if (!setups.has(name)) throw new FlowConfigError(NAME, `perTool.${name}`, 'absent: there is no such tool', defaults.perTool[name]);
  }
  return setups;
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
    if (all.has(tool.name)) throw new FlowConfigError(NAME, `${at}.name`, 'a name that no other tool has', tool.name);
    all.set(tool.name, setup);
  }
  return all;
}

function toolSetup(at: string, tool: AnyTool, defaults: ToolDefaults): ToolSetup {
  onlyKnown(NAME, tool, TOOL_OPTIONS, at, `${at}.`);
  const { name, description, parameters } = tool;
  const { execute, format, cost } = tool as Readonly<Record<'execute' | 'format' | 'cost', unknown>>;
  nonEmpty(NAME, `${at}.name`, name);
  nonEmpty(NAME, `${at}.description`, description);
  const { safeParse, '~standard': standard } = Object(parameters) as { safeParse?: unknown; '~standard'?: { validate?: unknown } };
  if (typeof safeParse !== 'function' && typeof standard?.validate !== 'function')
    throw new FlowConfigError(NAME, `${at}.parameters`, 'a schema with `safeParse` or `~standard`', parameters);
  requiredFunction(NAME, `${at}.execute`, execute);
  callback(NAME, `${at}.format`, format);
  callback(NAME, `${at}.cost`, cost);
  const readOnly = flag(NAME, `${at}.readOnly`, orDefault(tool.readOnly, false));
  const idempotent = flag(NAME, `${at}.idempotent`, orDefault(tool.idempotent, readOnly));
  const runsTools = flag(NAME, `${at}.runsTools`, orDefault(tool.runsTools, false));
  const classify = callback(NAME, `${at}.classify`, tool.classify);
  if (classify !== undefined && (tool.retry === undefined || tool.retry === false))
    throw new FlowConfigError(NAME, `${at}.classify`, 'absent without a `retry` of the tool', classify);
  const own = count(NAME, `${at}.concurrency`, orDefault(tool.concurrency, Infinity));
  // Checked where it was read; a tool may have the name of something that every object has.
  const isLimited = Object.hasOwn(defaults.perTool, name);
  const concurrency = isLimited ? (defaults.perTool[name] ?? own) : own;
  if (runsTools && concurrency !== Infinity) {
    const option = isLimited ? `perTool.${name}` : `${at}.concurrency`;
    throw new FlowConfigError(NAME, option, 'absent, because a tool with `runsTools` takes no slot', concurrency);
  }
  const bound = <F>(method: F): F => (typeof method === 'function' ? (method.bind(tool) as F) : method);
  return {
    tool: {
      ...{ name, description, parameters, readOnly, idempotent, runsTools },
      ...{ execute: bound(execute), format: bound(format), cost: bound(cost) },
    } as AnyTool,
    original: tool,
    limiter: runsTools ? undefined : childOf(defaults.limiter, { concurrency, abortGraceMs: defaults.abortGraceMs }),
    timeoutMs: positive(NAME, `${at}.timeoutMs`, orDefault(tool.timeoutMs, defaults.timeoutMs)),
    retry: retryRule(
      NAME,
      orDefault(tool.retry, idempotent ? defaults.retry : false),
      Infinity,
      tool.retry === undefined ? 'retry' : `${at}.retry`,
    ),
    classify: classify ?? defaults.classify,
    refusals: new Refusals(),
  };
}
