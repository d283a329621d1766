import type { AdaptiveLimitOptions } from '../../../operators/adaptive-limit.js';
import { childOf } from '../../../operators/child-of.js';
import { classifyError } from '../../../operators/classify-error.js';
import { FlowConfigError } from '../../../operators/errors.js';
import {
  callback,
  checked,
  count,
  countFromZero,
  durationMs,
  laneOption,
  limiterOption,
  listener,
  nonEmpty,
  onlyKnown,
  optional,
  orDefault,
  positive,
  requiredFunction,
  requiredSignal,
  schedulerOption,
  unchecked,
} from '../../../operators/toolkit.js';
import type { Limiter } from '../../../operators/types.js';
import { budgetOption } from '../budget/budget-options.js';
import type { RunToolsOptions, ToolRunnerOptions } from './runner-types.js';
import { NAME } from './tool-setup.js';
import type { ToolCall } from './tool-types.js';

export const TOOL_RUNNER_DEFAULTS = {
  concurrency: 5,
  timeoutMs: 30_000,
  maxQueued: 1000,
  maxResultChars: Infinity,
  abortGraceMs: 1000,
} as const;

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- whichever context: it is handed on as it is
export type AnyRunnerOptions = ToolRunnerOptions<any>;

const RUN_OPTIONS = ['context', 'key', 'signal', 'deadlineMs'] as const;
export function runOptions(options: RunToolsOptions = {}) {
  onlyKnown(NAME, options, RUN_OPTIONS, 'run options');
  const { signal, deadlineMs, ...given } = options;
  if (given.key !== undefined) nonEmpty(NAME, 'key', given.key);
  if (signal !== undefined) requiredSignal(NAME, 'signal', signal);
  return { given, signal, deadlineMs: durationMs(NAME, 'deadlineMs', orDefault(deadlineMs, Infinity)) };
}

export function checkedCalls(calls: readonly ToolCall[]): readonly ToolCall[] {
  if (!Array.isArray(calls)) throw new FlowConfigError(NAME, 'calls', 'an array', calls);
  return (calls as readonly ToolCall[]).map((call, i) => checkedCall(call, `calls[${String(i)}]`));
}

/** A copy, so that nobody exchanges the call of a tool for that of another. Without an id and a name there is nobody to answer. */
export function checkedCall(call: ToolCall, at: string): ToolCall {
  const { id, name, input } = Object(call) as Partial<ToolCall>;
  if (typeof id !== 'string' || id === '') throw new FlowConfigError(NAME, `${at}.id`, 'a non-empty string', id);
  if (typeof name !== 'string') throw new FlowConfigError(NAME, `${at}.name`, 'a string', name);
  return { id, name, input };
}

export function readOptions(options: AnyRunnerOptions) {
  const { limiter, concurrency, adaptive } = Object(options) as AnyRunnerOptions;
  const defaults = { ...TOOL_RUNNER_DEFAULTS, perTool: {}, classify: classifyError, random: Math.random };
  const given = checked(NAME, options, defaults, {
    tools: unchecked,
    concurrency: count,
    adaptive: (operator, option, value: AdaptiveLimitOptions | undefined) =>
      value === undefined ? value : plainObject(operator, option, value),
    // With a `concurrency`, so many of its slots.
    limiter: (operator, _option, value: Limiter | undefined) => {
      const shared = limiterOption(operator, value);
      if (shared === undefined || concurrency === undefined) return shared;
      return childOf(shared, { concurrency: count(operator, 'concurrency', concurrency) });
    },
    lane: unchecked,
    perTool: limitsByName,
    guard: callback,
    budget: budgetOption,
    timeoutMs: positive,
    retry: unchecked,
    classify: requiredFunction,
    maxQueued: countFromZero,
    maxResultChars: count,
    abortGraceMs: durationMs,
    name: optional<string>(nonEmpty),
    onEvent: listener,
    scheduler: schedulerOption,
    random: requiredFunction,
  });
  if (adaptive !== undefined && limiter !== undefined)
    throw new FlowConfigError(
      NAME,
      'adaptive',
      'absent when a `limiter` is given: call `adaptiveLimit(limiter)` where it is made',
      adaptive,
    );
  if (adaptive !== undefined && concurrency !== undefined)
    throw new FlowConfigError(NAME, 'concurrency', 'absent when `adaptive` is given', concurrency);
  if (given.lane !== undefined && limiter === undefined) throw new FlowConfigError(NAME, 'lane', 'absent without a `limiter`', given.lane);
  laneOption(NAME, given.lane, limiter);
  return given;
}

function limitsByName(operator: string, option: string, limits: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  for (const [name, limit] of Object.entries(plainObject(operator, option, limits))) count(operator, `${option}.${name}`, limit);
  return limits;
}

function plainObject<O extends object>(operator: string, option: string, value: O): O {
  if (Object.prototype.toString.call(value) === '[object Object]') return value;
  throw new FlowConfigError(operator, option, 'an object', value);
}
