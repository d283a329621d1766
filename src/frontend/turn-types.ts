import type { Observable, SchedulerLike } from 'rxjs';
import type { Handle, Policy, Store, ToStoreOptions } from '../../operators/index.js';
import type { ModelStream } from '../pipelines/models/model-types.js';
import type { ToolRunner } from '../pipelines/tools/runner-types.js';
import type { AnyTool, ToolCall, ToolResult } from '../pipelines/tools/tool-types.js';
import type { OpaqueProtocol } from '../streams/model-part.js';

/**
 * What a user says: a text, or parts as the provider has them (a text and an image).
 * @beta
 */
export type UserContent = string | readonly object[];

/** What a provider wants back as it was, where it was: thinking with its signature (Anthropic), encrypted reasoning (Responses). */
export interface OpaqueBlock {
  /** Whose it is: for the others it is left out. */
  readonly protocol: OpaqueProtocol;
  /** As it came. */
  readonly block: object;
  /** How much of `content` stands before it, in characters. */
  readonly afterChars: number;
  /** How many of `toolCalls` stand before it. */
  readonly afterCalls: number;
}

/**
 * One message of a conversation, in no provider's words; `toMessages` writes those of a provider.
 * @beta
 */
export type TurnMessage =
  | { readonly role: 'user'; readonly content: UserContent }
  | {
      readonly role: 'assistant';
      /** Empty when the model only asked for tools. */
      readonly content: string;
      /** Each is answered by one of the `tool` messages that follow. */
      readonly toolCalls: readonly ToolCall[];
      /** What the provider has put between them, in its order. Keep it with the message. */
      readonly opaque?: readonly OpaqueBlock[];
      /** The answer was cut here: by a newer question, a stop, a failure. */
      readonly isCut?: true;
    }
  | {
      readonly role: 'tool';
      readonly toolCallId: string;
      /** Of the tool. */
      readonly name: string;
      /** What the model reads. */
      readonly content: string;
      readonly isError: boolean;
    };

/** Tokens as the model has counted them; 0 where it did not say. */
export interface TurnUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What a model had said when it was cut, for nothing. */
export interface TurnWaste {
  /** Events of its stream. */
  readonly chunks: number;
  /** What it had written, as the model counted it, or else as the option `estimateTokens` does: the count of a cut answer seldom comes. */
  readonly estimatedTokens: number;
}

/** Why a turn was ended before its time. */
export type CancelReason = 'superseded' | 'stopped' | 'left' | 'aborted' | 'closed';

/** What happens in a turn, without which turn that is. */
export type TurnNews =
  /**
   * It begins; without a `message` it goes on with what the history left open. A question closes that: `closed` is the step that a reload came
   * into, each call with a result.
   */
  | { readonly type: 'started'; readonly message?: TurnMessage; readonly closed?: readonly TurnMessage[] }
  /** A piece of the answer, or of what the model thinks before it answers. */
  | { readonly type: 'delta'; readonly kind: 'text' | 'reasoning'; readonly text: string }
  /** The model asks for a tool. Exactly one `toolResult` with its id follows, before the end of the turn. */
  | { readonly type: 'toolCall'; readonly call: ToolCall }
  /** The call waits for `answer(call.id, allowed)`. */
  | { readonly type: 'pending'; readonly call: ToolCall }
  /** The pending call was allowed, or not. */
  | { readonly type: 'answered'; readonly call: ToolCall; readonly isAllowed: boolean }
  | { readonly type: 'toolResult'; readonly result: ToolResult }
  /** The model has answered, and its calls are over: what the history got. */
  | {
      readonly type: 'step';
      readonly messages: readonly TurnMessage[];
      /** Why the model ended, in its own words; undefined when it did not say. */
      readonly reason: string | undefined;
      /** Of this step. */
      readonly usage: TurnUsage;
    }
  /** The model has said its last word (`done`), or asks for more steps than `maxSteps`. `text` is the answer of the last step. */
  | {
      readonly type: 'finished';
      readonly reason: 'done' | 'maxSteps';
      readonly text: string;
      readonly usage: TurnUsage;
      /** The last word is not what it should be: cut off at its longest length or by a filter, a refusal, or no word at all. */
      readonly fault?: 'length' | 'content_filter' | 'refusal' | 'empty';
    }
  /** It was ended. `kept` is what the history keeps of the whole turn. */
  | {
      readonly type: 'cancelled';
      readonly reason: CancelReason;
      readonly kept: readonly TurnMessage[];
      readonly wasted: TurnWaste;
      readonly usage: TurnUsage;
    }
  /** The model failed, or the time was over. */
  | {
      readonly type: 'failed';
      readonly error: unknown;
      readonly kept: readonly TurnMessage[];
      readonly wasted: TurnWaste;
      readonly usage: TurnUsage;
    };

/** Which turn something happens in. */
export interface TurnPlace {
  readonly turnId: string;
  /** Of the conversation. */
  readonly key: string;
  /** 1 for the first answer of the model; 0 before. */
  readonly step: number;
}

/**
 * What happens in a turn. The last one is `finished`, `cancelled` or `failed`, exactly one of them.
 * @beta
 */
export type TurnEvent = TurnPlace & TurnNews;

/**
 * What a model is told besides the messages.
 * @beta
 */
export interface TurnContext<X = unknown> extends TurnPlace {
  /** Aborts when the turn is over before the answer is. Give it to the client. */
  readonly signal: AbortSignal;
  /** What the model may call now: make its tool definitions of these. */
  readonly tools: readonly AnyTool[];
  /** What `ask` was given as `context`. */
  readonly context: X;
}

/** The clock of a step, as `policy` has it. */
export interface TurnClock {
  readonly restartTimeout: () => void;
  readonly pauseTimeout: () => () => void;
}

/**
 * What is to be judged: whether a person has to allow a call.
 * @beta
 */
export interface ApprovalContext<X = unknown> extends TurnPlace {
  readonly tool: AnyTool;
  readonly context: X;
}

/** @beta */
export interface SpeculateOptions {
  /** Names of the tools that may be called on a guess. Each has to be `readOnly`. */
  readonly tools: readonly string[];
  /** How long a guess is held, from when it is made, in ms. @defaultValue 10000 */
  readonly ttlMs?: number;
  /** Most guesses held for a conversation; one more takes the place of the oldest. @defaultValue 8 */
  readonly maxQueued?: number;
}

/**
 * `X` is the `context` of the tools.
 * @beta
 */
export interface AgentTurnOptions<X = unknown> {
  /**
   * Makes the model answer: gets the conversation and returns the stream of any client, as it is. Chunks of chat completions, events of the
   * Responses API, of Anthropic's messages and of AG-UI are understood, and so are texts and `ModelPart`s. Limits and repeats are its own: see
   * `createModelCaller`.
   */
  readonly model: (messages: readonly TurnMessage[], context: TurnContext<X>) => ModelStream<unknown>;
  /** Makes the calls of the model: `createToolRunner({ tools })`, with its limits and its guard. It stays yours to close. @defaultValue none */
  readonly tools?: ToolRunner<X>;
  /** Whether a person has to allow the call: it waits for `answer`, and the others go on. A throw refuses the call. @defaultValue none has to */
  readonly needsApproval?: (call: ToolCall, context: ApprovalContext<X>) => boolean;
  /** Calls on a guess. @defaultValue none */
  readonly speculate?: SpeculateOptions;
  /** What a conversation begins with: the same for all, or by key, asked once for each. @defaultValue nothing */
  readonly history?: readonly TurnMessage[] | ((key: string) => readonly TurnMessage[]);
  /**
   * What the history keeps of a turn that was cut: with `'keep'` the question, what was said and every call with its answer, but nothing of a turn that
   * was superseded before anything was said; with `'drop'` nothing. @defaultValue 'keep'
   */
  readonly unfinished?: 'keep' | 'drop';
  /** Most answers of the model in a turn. @defaultValue 16 */
  readonly maxSteps?: number;
  /**
   * Bounds each turn: `policy({ deadlineMs, timeoutMs })`. `deadlineMs` is the longest turn, which fails with `DeadlineError`; `timeoutMs` (30 s unless you
   * say otherwise) the longest step, the answer and its calls without the time that they wait for a person, which fails with `AttemptTimeoutError`. With
   * a `limiter` of its own, turns wait for a permit before they start. @defaultValue none: no bound
   */
  readonly policy?: Policy;
  /** Counts the tokens of a cut answer, for `wasted`; `estimateTokens` is closer. @defaultValue 1 for 4 bytes of UTF-8 */
  readonly estimateTokens?: (text: string) => number;
  /** Clock and timers. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/**
 * Whose turn, and with what.
 * @beta
 */
export interface AskOptions<X = unknown> {
  /** Of the conversation: the newest question of a key wins, conversations run side by side. @defaultValue 'default' */
  readonly key?: string;
  /** Ends the turn when it aborts, as `cancelled`. */
  readonly signal?: AbortSignal;
  /** Handed as it is to the model, the guard and the tools. @defaultValue undefined */
  readonly context?: X;
}

/** Options that may be left out where nobody needs a `context`. */
export type AskArguments<X> = undefined extends X ? [options?: AskOptions<X>] : [options: AskOptions<X> & { readonly context: X }];

/** @beta */
export interface AnswerOptions {
  /** @defaultValue the conversation that has such a call */
  readonly key?: string;
  /** For how many calls it counts, to the end of the turn: those with the same tool and the same arguments, or all of the tool. @defaultValue 'call' */
  readonly appliesTo?: 'call' | 'tool';
}

/** Which conversation's guess, and with what. */
export interface GuessOptions<X = unknown> {
  /** @defaultValue 'default' */
  readonly key?: string;
  /** A guess is only for a turn with the very same context. @defaultValue undefined */
  readonly context?: X;
}

export interface HistoryOptions {
  /** With the calls of the step under way and the results that are there, for `resume` after a reload: no model takes it like that. @defaultValue false */
  readonly open?: boolean;
}

/** One call of the step under way. */
export interface TurnCallView {
  readonly call: ToolCall;
  /** `'pending'` waits for `answer`. */
  readonly state: 'running' | 'pending' | 'done';
  readonly result?: ToolResult;
}

/**
 * What a user interface shows of a conversation.
 * @beta
 */
export interface TurnView {
  /** `'waiting'`: for a person to allow a call. */
  readonly status: 'idle' | 'running' | 'waiting' | 'finished' | 'cancelled' | 'failed';
  /** What is settled. */
  readonly messages: readonly TurnMessage[];
  /** What the model has said in the step under way. */
  readonly text: string;
  /** What it has thought in the step under way. */
  readonly reasoning: string;
  /** What it asks for in the step under way. */
  readonly calls: readonly TurnCallView[];
  /** Why the last turn failed. */
  readonly error?: unknown;
  /** Of the newest turn. */
  readonly turnId?: string;
  /** How many messages there were before it. */
  readonly before: number;
}

/** How a store of a conversation shows its view. */
export interface TurnStoreOptions extends ToStoreOptions {
  /** Whether the running turn of the conversation is cancelled (`left`) when the last listener of all its stores has left. @defaultValue true */
  readonly stopsTurn?: boolean;
}

/** @beta */
export interface AgentTurnsSnapshot {
  /** Turns under way. */
  readonly running: number;
  /** Calls that wait for a person. */
  readonly pending: number;
  /** Conversations that are known. */
  readonly conversations: number;
  /** Guesses that are held, under way or done. */
  readonly guesses: number;
  /** Turns since the start, by their end. */
  readonly finished: number;
  readonly cancelled: number;
  readonly failed: number;
  /** What cut answers have cost, in tokens. */
  readonly wastedTokens: number;
}

/** @beta */
export interface AgentTurns<X = unknown> extends Handle {
  /**
   * One turn for each subscriber: what happens in it, and then it completes. It never errors. Subscribing ends the running turn of the conversation first;
   * leaving ends this one.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the intent is empty or an option is unknown or out of range
   */
  ask(intent: UserContent, ...options: AskArguments<X>): Observable<TurnEvent>;
  /**
   * A turn without a question: goes on with what the history leaves open, calls without a result first, then the model. Where nothing is open it finishes
   * at once.
   */
  resume(...options: AskArguments<X>): Observable<TurnEvent>;
  /** Ends the running turn of a conversation as `cancelled`, and forgets its guesses; without a key, those of all. */
  stop(key?: string): void;
  /** Says whether a pending call may be made; a text says why not. False when no such call waits. */
  answer(callId: string, allowed: boolean | string, options?: AnswerOptions): boolean;
  /**
   * Makes a call on the guess that the model will ask for it. Its result is held, for nobody to see, until the model of the conversation asks for the same
   * tool with the same arguments; or forgotten. False when it may not be called on a guess.
   */
  speculate(call: Pick<ToolCall, 'name' | 'input'>, options?: GuessOptions<X>): boolean;
  /** The conversation as a model takes it: every call is answered. */
  history(key?: string, options?: HistoryOptions): readonly TurnMessage[];
  /** Ends the running turn of a conversation and forgets all of it, its stores too. */
  forget(key: string): void;
  /** What happens in all conversations. Completes when this has drained or was closed. */
  readonly events: Observable<TurnEvent>;
  /**
   * A store with a view of your own; the same one for the same key and `reduce`, with the first `initial` and `pace`. It misses nothing, whether somebody listens or
   * not, until the conversation is forgotten: so define `reduce` once, outside of components. Where `reduce` throws the store has failed with a
   * `CallbackError`, and shows the last view; nothing else is touched.
   */
  store<V>(key: string, reduce: (view: V, event: TurnEvent) => V, initial: V, pace?: TurnStoreOptions): Store<V>;
  /** A store of the conversation for a user interface; the same one each time for the same key and equal `pace`. */
  store(key?: string, pace?: TurnStoreOptions): Store<TurnView>;
  snapshot(): AgentTurnsSnapshot;
}
