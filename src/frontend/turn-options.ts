import type { SchedulerLike } from 'rxjs';
import { FlowConfigError } from '../../operators/errors.js';
import {
  ask,
  callback,
  checked,
  count,
  flag,
  nonEmpty,
  oneOf,
  onlyKnown,
  orDefault,
  positive,
  requiredFunction,
  requiredSignal,
  schedulerOption,
  unchecked,
} from '../../operators/toolkit.js';
import { createToolRunner } from '../pipelines/create-tool-runner.js';
import type { ModelStream } from '../pipelines/models/model-types.js';
import type { ToolRunner } from '../pipelines/tools/runner-types.js';
import type { ToolCall } from '../pipelines/tools/tool-types.js';
import type { GuessRules } from './held-guesses.js';
import type { OpenHistory } from './open-history.js';
import { openHistory } from './open-history.js';
import type {
  AgentTurnOptions,
  AnswerOptions,
  ApprovalContext,
  AskOptions,
  GuessOptions,
  HistoryOptions,
  SpeculateOptions,
  TurnContext,
  TurnMessage,
  TurnStoreOptions,
  UserContent,
} from './turn-types.js';

/** What it calls itself in errors. */
export const NAME = 'createAgentTurn';

export const AGENT_TURN_DEFAULTS = { maxSteps: 16, timeoutMs: Infinity, deadlineMs: Infinity, unfinished: 'keep', key: 'default' } as const;

export const SPECULATE_DEFAULTS = { ttlMs: 10_000, maxHeld: 8 } as const;

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- whichever intent and context: they are handed on as they are
export type AnyTurnOptions = AgentTurnOptions<any, any>;

/** What is the same for all turns. */
export interface TurnSettings {
  readonly model: (messages: readonly TurnMessage[], context: TurnContext) => ModelStream<unknown>;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the context is handed on as it is
  readonly runner: ToolRunner<any>;
  readonly needsApproval: ((call: ToolCall, context: ApprovalContext) => boolean) | undefined;
  readonly toContent: ((intent: never) => UserContent) | undefined;
  readonly unfinished: 'keep' | 'drop';
  readonly maxSteps: number;
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  readonly scheduler: SchedulerLike;
}

export function readOptions(options: AnyTurnOptions) {
  const given = checked(
    NAME,
    options,
    { ...AGENT_TURN_DEFAULTS, tools: [] },
    {
      model: requiredFunction,
      tools: unchecked,
      guard: callback,
      needsApproval: callback,
      speculate: unchecked,
      history: unchecked,
      toContent: callback,
      unfinished: oneOf('keep', 'drop'),
      maxSteps: count,
      timeoutMs: positive,
      deadlineMs: positive,
      scheduler: schedulerOption,
    },
  );
  const { tools, guard, speculate, history, scheduler } = given;
  const isOwn = Array.isArray(tools);
  if (!isOwn && !isRunner(tools)) throw new FlowConfigError(NAME, 'tools', 'an array of tools, or a runner of createToolRunner', tools);
  if (!isOwn && guard !== undefined)
    throw new FlowConfigError(NAME, 'guard', 'absent when `tools` is a runner: give it to the runner', guard);
  const runner = isOwn ? createToolRunner({ tools, ...(guard && { guard }), scheduler }) : (tools as ToolRunner);
  return {
    settings: { ...given, runner } as TurnSettings,
    ownRunner: isOwn ? runner : undefined,
    guesses: speculate === undefined ? undefined : guessRules(speculate, runner),
    history: historyOption(history),
  };
}

function isRunner(tools: unknown): boolean {
  const { mapCalls, addTools } = Object(tools) as Partial<ToolRunner>;
  return typeof mapCalls === 'function' && typeof addTools === 'function';
}

function guessRules(options: SpeculateOptions, runner: ToolRunner): GuessRules {
  onlyKnown(NAME, options, ['tools', 'ttlMs', 'maxHeld'], 'speculate', 'speculate.');
  const given = checked(NAME, options, SPECULATE_DEFAULTS, { tools: unchecked, ttlMs: positive, maxHeld: count }, 'speculate.');
  const { tools } = given;
  if (!Array.isArray(tools)) throw new FlowConfigError(NAME, 'speculate.tools', 'an array of names', tools);
  for (const [i, name] of tools.entries()) {
    const tool = runner.tools.find((known) => known.name === name);
    if (tool?.readOnly !== true)
      throw new FlowConfigError(NAME, `speculate.tools[${String(i)}]`, 'the name of a tool that is `readOnly`', name);
  }
  return { ...given, tools: [...(tools as readonly string[])] };
}

/** What a conversation begins with. A list is looked at now, what a function answers when it is asked. */
function historyOption(history: AnyTurnOptions['history']): (key: string) => OpenHistory {
  if (typeof history === 'function') return (key) => checkedHistory(ask(NAME, 'history', history, key));
  const same = checkedHistory(orDefault(history, []));
  return () => same;
}

/** @throws FlowConfigError */
function checkedHistory(messages: readonly TurnMessage[]): OpenHistory {
  if (!Array.isArray(messages)) throw new FlowConfigError(NAME, 'history', 'an array of messages, or a function', messages);
  const opened = openHistory(messages);
  if (typeof opened !== 'string') return opened;
  throw new FlowConfigError(NAME, 'history', `a conversation that a model takes (${opened})`, messages);
}

export function askOptions(options: AskOptions = {}) {
  onlyKnown(NAME, options, ['key', 'signal', 'context'], 'ask options');
  const { signal, context } = options;
  if (signal !== undefined) requiredSignal(NAME, 'signal', signal);
  return { key: keyOption(options.key), signal, context };
}

export function guessOptions(options: GuessOptions = {}) {
  onlyKnown(NAME, options, ['key', 'context'], 'speculate options');
  return { key: keyOption(options.key), context: options.context };
}

export function answerOptions(options: AnswerOptions = {}) {
  onlyKnown(NAME, options, ['key', 'scope'], 'answer options');
  const { key, scope } = options;
  return {
    key: key === undefined ? undefined : keyOption(key),
    scope: oneOf('call', 'tool')(NAME, 'scope', orDefault(scope, 'call')),
  };
}

export function historyOptions(options: HistoryOptions = {}) {
  onlyKnown(NAME, options, ['open'], 'history options');
  return { open: flag(NAME, 'open', orDefault(options.open, false)) };
}

export function keyOption(key: string | undefined): string {
  return nonEmpty(NAME, 'key', orDefault(key, AGENT_TURN_DEFAULTS.key));
}

/** What of it `toStore` takes, that says itself. */
export function paceOption(pace: TurnStoreOptions, option: string, expected: string): TurnStoreOptions {
  if (typeof pace !== 'object' || (pace as unknown) === null) throw new FlowConfigError(NAME, option, expected, pace);
  flag(NAME, 'stopsTurn', orDefault(pace.stopsTurn, true));
  return pace;
}
