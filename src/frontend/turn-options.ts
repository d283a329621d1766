import type { SchedulerLike } from 'rxjs';
import { ask, check, report } from '../../operators/build.js';
import type { Policy } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';
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
} from './turn-types.js';

/** What it calls itself in errors. */
export const NAME = 'createAgentTurn';

export const AGENT_TURN_DEFAULTS = { maxSteps: 16, unfinished: 'keep', key: 'default' } as const;

export const SPECULATE_DEFAULTS = { ttlMs: 10_000, maxQueued: 8 } as const;

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- whichever context: it is handed on as it is
export type AnyTurnOptions = AgentTurnOptions<any>;

/** What is the same for all turns. */
export interface TurnSettings {
  readonly model: (messages: readonly TurnMessage[], context: TurnContext) => ModelStream<unknown>;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the context is handed on as it is
  readonly runner: ToolRunner<any> | undefined;
  readonly policy: Policy | undefined;
  readonly estimateTokens: (text: string) => number;
  readonly needsApproval: ((call: ToolCall, context: ApprovalContext) => boolean) | undefined;
  readonly unfinished: 'keep' | 'drop';
  readonly maxSteps: number;
  readonly scheduler: SchedulerLike;
}

export function readOptions(options: AnyTurnOptions) {
  const given = check.options(
    NAME,
    options,
    { ...AGENT_TURN_DEFAULTS, estimateTokens: byBytes },
    {
      model: check.requiredFunction,
      tools: check.madeBy('mapCalls', '`createToolRunner({ tools })`', undefined),
      needsApproval: check.callback,
      speculate: check.unchecked,
      history: check.unchecked,
      unfinished: check.oneOf('keep', 'drop'),
      maxSteps: check.count,
      policy: check.callback,
      estimateTokens: estimateOption,
      scheduler: check.scheduler,
    },
  );
  const { tools: runner, speculate, history } = given as typeof given & { readonly tools: ToolRunner | undefined };
  return {
    settings: { ...given, runner } as TurnSettings,
    guesses: speculate === undefined ? undefined : guessRules(speculate, runner),
    history: historyOption(history),
  };
}

/** The end of a turn must not fail by it: what it throws is reported, and bytes are counted instead. */
function estimateOption(operator: string, option: string, given: (text: string) => number): (text: string) => number {
  const estimate = check.requiredFunction(operator, option, given);
  return (text) => {
    try {
      const tokens: unknown = ask(NAME, option, estimate, text);
      if (check.isAmount(tokens)) return tokens;
      throw check.unusable(NAME, option, 'a number >= 0', tokens);
    } catch (error) {
      report(error);
      return byBytes(text);
    }
  };
}

/** Near enough for an answer that was cut. */
function byBytes(text: string): number {
  return Math.ceil(new TextEncoder().encode(text).length / 4);
}

function guessRules(options: SpeculateOptions, runner: ToolRunner | undefined): GuessRules {
  check.onlyKnown(NAME, options, ['tools', 'ttlMs', 'maxQueued'], 'speculate', 'speculate.');
  const given = check.options(
    NAME,
    options,
    SPECULATE_DEFAULTS,
    { tools: check.unchecked, ttlMs: check.positive, maxQueued: check.count },
    'speculate.',
  );
  const { tools } = given;
  if (!Array.isArray(tools)) throw new FlowConfigError(NAME, 'speculate.tools', 'an array of names', tools);
  for (const [i, name] of tools.entries()) {
    const tool = runner?.tools.find((known) => known.name === name);
    if (tool?.readOnly !== true)
      throw new FlowConfigError(NAME, `speculate.tools[${String(i)}]`, 'the name of a tool that is `readOnly`', name);
  }
  return { ...given, tools: [...(tools as readonly string[])] };
}

/** What a conversation begins with. A list is looked at now, what a function answers when it is asked. */
function historyOption(history: AnyTurnOptions['history']): (key: string) => OpenHistory {
  if (typeof history === 'function') return (key) => checkedHistory(ask(NAME, 'history', history, key));
  const same = checkedHistory(check.orDefault(history, []));
  return () => same;
}

/** @throws FlowConfigError */
function checkedHistory(messages: readonly TurnMessage[]): OpenHistory {
  if (!Array.isArray(messages)) throw new FlowConfigError(NAME, 'history', 'an array of messages, or a function', messages);
  const opened = openHistory(messages);
  if (typeof opened !== 'string') return opened;
  throw check.misused(NAME, 'history', opened, 'Correct or remove this message.');
}

export function askOptions(options: AskOptions = {}) {
  check.onlyKnown(NAME, options, ['key', 'signal', 'context'], 'ask options');
  const { signal, context } = options;
  if (signal !== undefined) check.requiredSignal(NAME, 'signal', signal);
  return { key: keyOption(options.key), signal, context };
}

export function guessOptions(options: GuessOptions = {}) {
  check.onlyKnown(NAME, options, ['key', 'context'], 'speculate options');
  return { key: keyOption(options.key), context: options.context };
}

export function answerOptions(options: AnswerOptions = {}) {
  check.onlyKnown(NAME, options, ['key', 'appliesTo'], 'answer options');
  const { key, appliesTo } = options;
  return {
    key: key === undefined ? undefined : keyOption(key),
    appliesTo: check.oneOf('call', 'tool')(NAME, 'appliesTo', check.orDefault(appliesTo, 'call')),
  };
}

export function historyOptions(options: HistoryOptions = {}) {
  check.onlyKnown(NAME, options, ['open'], 'history options');
  return { open: check.flag(NAME, 'open', check.orDefault(options.open, false)) };
}

export function keyOption(key: string | undefined): string {
  return check.nonEmpty(NAME, 'key', check.orDefault(key, AGENT_TURN_DEFAULTS.key));
}

/** What of it `toStore` takes, that says itself. */
export function paceOption(pace: TurnStoreOptions, option: string, expected: string): TurnStoreOptions {
  if (typeof pace !== 'object' || (pace as unknown) === null) throw new FlowConfigError(NAME, option, expected, pace);
  check.flag(NAME, 'stopsTurn', check.orDefault(pace.stopsTurn, true));
  return pace;
}
