import { check } from '../../../operators/build.js';
import type { Limiter } from '../../../operators/index.js';
import { childOf, classifyError, FlowConfigError } from '../../../operators/index.js';
import { ambientJob, ambientLane } from '../../account/with-job.js';
import { budgetOption } from '../budget/budget-options.js';
import { TOOL_RUNNER_DEFAULTS } from '../defaults.js';
import type { RunGiven, RunToolsOptions, ToolRunnerOptions } from './runner-types.js';
import { NAME } from './tool-setup.js';
import type { ToolCall } from './tool-types.js';

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- whichever context: it is handed on as it is
export type AnyRunnerOptions = ToolRunnerOptions<any>;

const RUN_OPTIONS = ['context', 'key', 'signal', 'deadlineMs'] as const;

/** What a run was asked for, or what the calls of a tool that runs others have of it. */
export interface CheckedRun {
  readonly given: RunGiven;
  readonly signal?: AbortSignal | undefined;
  readonly deadlineMs: number;
}

/** With `withJob`, the lane of a shared limiter that has these, and the key of calls that have none. */
export function runOptions(options: RunToolsOptions = {}, lanes?: readonly string[]): CheckedRun {
  check.onlyKnown(NAME, options, RUN_OPTIONS, 'run options');
  const { signal, deadlineMs, context, key: own } = options;
  if (own !== undefined) check.nonEmpty(NAME, 'key', own);
  if (signal !== undefined) check.requiredSignal(NAME, 'signal', signal);
  const { key: ambient } = ambientJob();
  const key = own ?? (ambient === undefined ? undefined : String(ambient));
  return {
    given: { context, key, lane: ambientLane(lanes) },
    signal,
    deadlineMs: check.durationMs(NAME, 'deadlineMs', check.orDefault(deadlineMs, Infinity)),
  };
}

export function checkedCalls(calls: readonly ToolCall[]): readonly ToolCall[] {
  if (!Array.isArray(calls)) throw new FlowConfigError(NAME, 'calls', 'an array', calls);
  return (calls as readonly ToolCall[]).map((call, i) => checkedCall(call, `calls[${String(i)}]`));
}

/** A copy, so that a later change of the object cannot turn it into the call of another tool. A call needs an id and a name, because its result refers to them. */
export function checkedCall(call: ToolCall, at: string): ToolCall {
  const { id, name, input, ...others } = Object(call) as Partial<ToolCall>;
  if (name === undefined && 'function' in others)
    throw check.misused(NAME, at, `\`${at}\` is a tool call of a chat completion`, 'Pass the calls through `fromChatToolCalls` first.');
  if (typeof id !== 'string' || id === '') throw new FlowConfigError(NAME, `${at}.id`, 'a non-empty string', id);
  if (typeof name !== 'string') throw new FlowConfigError(NAME, `${at}.name`, 'a string', name);
  return { id, name, input };
}

export function readOptions(options: AnyRunnerOptions) {
  const { limiter, concurrency } = Object(options) as AnyRunnerOptions;
  const defaults = { ...TOOL_RUNNER_DEFAULTS, classify: classifyError, random: Math.random };
  const given = check.options(NAME, options, defaults, {
    tools: check.unchecked,
    concurrency: check.count,
    // With a `concurrency`, so many of its slots.
    limiter: (operator, option, value: Limiter | undefined) => {
      const shared = check.limiter(operator, option, value);
      if (shared === undefined || concurrency === undefined) return shared;
      return childOf(shared, { concurrency: check.count(operator, 'concurrency', concurrency) });
    },
    lane: check.unchecked,
    guard: check.callback,
    budget: budgetOption,
    timeoutMs: check.positive,
    retry: check.unchecked,
    classify: check.requiredFunction,
    maxQueued: check.countFromZero,
    maxResultChars: check.count,
    abortGraceMs: check.durationMs,
    name: check.optional<string>(check.nonEmpty),
    onEvent: check.listener,
    scheduler: check.scheduler,
    random: check.requiredFunction,
  });
  if (limiter === undefined) check.needs(NAME, 'lane', given.lane, '`limiter`');
  check.lane(NAME, 'lane', given.lane, limiter);
  return given;
}
