import { type AnswerFault, faultOfReason } from '../pipelines/finish-reason.js';
import { failed } from '../pipelines/tools/tool-results.js';
import type { ToolCall, ToolResult } from '../pipelines/tools/tool-types.js';
import type { ModelPart } from '../streams/model-part.js';
import { stringOf } from '../streams/model-part.js';
import { isBlank } from './turn-messages.js';
import type { OpaqueBlock, TurnMessage, TurnNews, TurnUsage, TurnWaste } from './turn-types.js';

/** What is to be done next. */
export type TurnOrder = 'wait' | 'model' | 'done' | 'maxSteps';

/** A call of the step under way. */
interface StepCall {
  readonly call: ToolCall;
  isPending: boolean;
  result: ToolResult | undefined;
}

/** What of the options it decides by. */
export interface TurnRules {
  readonly maxSteps: number;
  readonly estimateTokens: (text: string) => number;
}

/** What a person has said once, for the rest of the turn. */
type Verdict = boolean | string;

const NO_USAGE: TurnUsage = { inputTokens: 0, outputTokens: 0 };

/**
 * One turn, as far as it can be decided: it is told what happens and answers what is to be said and done. No clock, no signal, no stream. What it
 * has in `messages` can be given to a model at any time.
 */
export class TurnMachine {
  step = 0;
  /** What the turn has added to the conversation, whole steps only. */
  readonly messages: TurnMessage[] = [];
  usage: TurnUsage = NO_USAGE;
  /** Of the last step that is over. */
  answer = '';
  /** What is wrong with that. */
  fault: AnswerFault | undefined;
  readonly #rules: TurnRules;
  /** Ids of the conversation. */
  readonly #ids: Set<string>;
  /** By tool and arguments, and by tool. */
  readonly #ofCalls = new Map<string, Verdict>();
  readonly #ofTools = new Map<string, Verdict>();
  #isAnswering = false;
  #text = '';
  #reasoning = '';
  #opaque: OpaqueBlock[] = [];
  #calls: StepCall[] = [];
  /** Ids of the calls of the step, by those that the model gave them. */
  readonly #renamed = new Map<unknown, string>();
  #reason: string | undefined;
  #stepUsage: TurnUsage = NO_USAGE;
  #chunks = 0;

  /** @param ids - those of all calls of the conversation, each of which is used once */
  constructor(rules: TurnRules, ids: Set<string>) {
    this.#rules = rules;
    this.#ids = ids;
  }

  /** The calls of the step, and the results that are there. */
  get open(): readonly TurnMessage[] {
    const answered = this.#calls.filter(({ result }) => result !== undefined);
    return this.#calls.length === 0 ? [] : [this.#assistant(), ...answered.map(answerOf)];
  }

  get pending(): readonly ToolCall[] {
    return this.#calls.filter(({ isPending }) => isPending).map(({ call }) => call);
  }

  // ---- a step -------------------------------------------------------------------------------------------------------

  /** The model is asked. */
  asks(): void {
    this.step++;
    this.#isAnswering = true;
  }

  /** Goes on with calls of an earlier step, some of which may be over; the calls that are not. */
  reopen(message: Extract<TurnMessage, { role: 'assistant' }>, results: readonly (ToolResult | undefined)[]): readonly ToolCall[] {
    this.step = 1;
    this.#text = message.content;
    this.#opaque = [...(message.opaque ?? [])];
    this.#calls = message.toolCalls.map((call, i) => ({ call, isPending: false, result: results[i] }));
    return this.#calls.filter(({ result }) => result === undefined).map(({ call }) => call);
  }

  /** One event of the stream has come, whatever it says. */
  counts(): void {
    this.#chunks++;
  }

  hears(part: ModelPart): TurnNews | undefined {
    switch (part.type) {
      case 'text':
        this.#text += part.text;
        return part.text === '' ? undefined : { type: 'delta', kind: 'text', text: part.text };
      case 'reasoning':
        this.#reasoning += part.text;
        return part.text === '' ? undefined : { type: 'delta', kind: 'reasoning', text: part.text };
      case 'opaque': {
        const { protocol, block, afterChars = this.#text.length, afterCalls = this.#calls.length } = part;
        this.#opaque.push({ protocol, block, afterChars, afterCalls });
        // What is said at the end may belong to the beginning.
        this.#opaque.sort((a, b) => a.afterCalls - b.afterCalls || a.afterChars - b.afterChars);
        return undefined;
      }
      case 'toolCall': {
        const call = { ...part.call, id: this.#newId(part.call.id) };
        this.#renamed.set(part.call.id, call.id);
        this.#calls.push({ call, isPending: false, result: undefined });
        return { type: 'toolCall', call };
      }
      case 'usage':
        this.#stepUsage = { ...this.#stepUsage, ...counted(part) };
        return undefined;
      case 'stop':
        this.#reason = part.reason;
        return undefined;
    }
  }

  /** The model has said all of it; the calls that are to be made. Without any the step is over. */
  said(): readonly ToolCall[] {
    this.#isAnswering = false;
    return this.#calls.map(({ call }) => call);
  }

  /** The result of a call is there; undefined when nobody waits for it. */
  takes(result: ToolResult): TurnNews | undefined {
    const open = this.#find(result.tool_use_id);
    if (open === undefined) return undefined;
    open.result = result;
    open.isPending = false;
    return { type: 'toolResult', result };
  }

  get isStepOver(): boolean {
    return !this.#isAnswering && this.#calls.every(({ result }) => result !== undefined);
  }

  /** The step is over: what the conversation gets, and what comes next. */
  closeStep(): { readonly news: TurnNews; readonly order: TurnOrder } {
    const hasCalls = this.#calls.length > 0;
    const messages = this.#written();
    const news: TurnNews = { type: 'step', messages, reason: this.#reason, usage: this.#stepUsage };
    this.answer = this.#text;
    this.fault = faultOfReason(this.#reason) ?? (!hasCalls && isBlank(this.#text) ? 'empty' : undefined);
    this.#keep(messages);
    return { news, order: !hasCalls ? 'done' : this.step < this.#rules.maxSteps ? 'model' : 'maxSteps' };
  }

  // ---- a person -----------------------------------------------------------------------------------------------------

  /** What was said about such a call before. */
  verdict(call: ToolCall): Verdict | undefined {
    const same = sameCall(call);
    return (same === undefined ? undefined : this.#ofCalls.get(same)) ?? this.#ofTools.get(call.name);
  }

  waits(call: ToolCall): TurnNews {
    const open = this.#find(call.id);
    if (open) open.isPending = true;
    return { type: 'pending', call };
  }

  /** The calls that are decided by it, that one first; undefined when it does not wait. */
  decides(id: string, verdict: Verdict, appliesTo: 'call' | 'tool'): readonly ToolCall[] | undefined {
    const asked = this.#find(id);
    if (asked?.isPending !== true) return undefined;
    const same = sameCall(asked.call);
    if (appliesTo === 'tool') this.#ofTools.set(asked.call.name, verdict);
    else if (same !== undefined) this.#ofCalls.set(same, verdict);
    const decided = this.#calls.filter((open) => open.isPending && (open === asked || this.verdict(open.call) !== undefined));
    for (const open of decided) open.isPending = false;
    return [asked, ...decided.filter((open) => open !== asked)].map(({ call }) => call);
  }

  // ---- an early end -------------------------------------------------------------------------------------------------

  /** The calls that have no result: each is to have one before `cut`. */
  get unanswered(): readonly ToolCall[] {
    return this.#calls.filter(({ result }) => result === undefined).map(({ call }) => call);
  }

  /** Whether anything was said or asked for in this turn. */
  get isSilent(): boolean {
    return this.messages.every(({ role }) => role === 'user') && this.#calls.length === 0 && isBlank(this.#text);
  }

  /** Ends it in the middle, and keeps what was said. The answer says, when it is asked, what was paid for nothing: it calls the estimate of the user. */
  cut(): () => TurnWaste {
    const { outputTokens } = this.#stepUsage;
    const chunks = this.#chunks;
    const written = this.#text + this.#reasoning + this.#calls.map(({ call }) => sameCall(call)).join('');
    const wasAnswering = this.#isAnswering;
    this.#isAnswering = false;
    this.#keep(this.#written(true));
    return () =>
      wasAnswering
        ? { chunks, estimatedTokens: Math.max(outputTokens, this.#rules.estimateTokens(written)) }
        : { chunks: 0, estimatedTokens: 0 };
  }

  // ---- the inside ---------------------------------------------------------------------------------------------------

  #find(id: string): StepCall | undefined {
    return this.#calls.find(({ call, result }) => call.id === id && result === undefined);
  }

  #keep(messages: readonly TurnMessage[]): void {
    this.messages.push(...messages);
    this.usage = {
      inputTokens: this.usage.inputTokens + this.#stepUsage.inputTokens,
      outputTokens: this.usage.outputTokens + this.#stepUsage.outputTokens,
    };
    this.#text = '';
    this.#reasoning = '';
    this.#opaque = [];
    this.#calls = [];
    this.#renamed.clear();
    this.#reason = undefined;
    this.#stepUsage = NO_USAGE;
    this.#chunks = 0;
  }

  /** An answer without a word and without a call is no message. */
  #written(isCut = false): TurnMessage[] {
    if (this.#calls.length === 0 && isBlank(this.#text)) return [];
    return [this.#assistant(isCut), ...this.#calls.map(answerOf)];
  }

  #assistant(isCut = false): TurnMessage {
    const content = isBlank(this.#text) ? '' : this.#text;
    const toolCalls = this.#calls.map(({ call }) => call);
    // What leads to nothing any more is refused, or worth nothing.
    const all = this.#opaque.map((each) => {
      const id = this.#renamed.get((each.block as { readonly toolCallId?: unknown }).toolCallId);
      return id === undefined ? each : { ...each, block: { ...each.block, toolCallId: id } };
    });
    const opaque = isCut ? all.filter(({ afterCalls, block }) => afterCalls < toolCalls.length || 'toolCallId' in block) : all;
    return { role: 'assistant', content, toolCalls, ...(opaque.length > 0 && { opaque }), ...(isCut && { isCut }) };
  }

  /** Some servers count the calls of every answer from 0, some give no ids, and some give ids that another would not take back. */
  #newId(given: unknown): string {
    const id = stringOf(given).replace(/[^a-zA-Z0-9_-]/g, '_') || 'call';
    let free = !given || this.#ids.has(id) ? `${id}_${String(this.#ids.size + 1)}` : id;
    while (this.#ids.has(free)) free += '_';
    this.#ids.add(free);
    return free;
  }
}

function answerOf({ call, result }: StepCall): TurnMessage {
  const { content, is_error: isError } = result ?? notMade(call);
  return { role: 'tool', toolCallId: call.id, name: call.name, content, isError };
}

/** The result of a call that the end of its turn came before. */
export function notMade(call: ToolCall): ToolResult {
  return failed({ call, index: 0, attempts: 0, durationMs: 0 }, { code: 'cancelled', message: 'the call was cancelled' });
}

function counted({ inputTokens, outputTokens }: Extract<ModelPart, { type: 'usage' }>): Partial<TurnUsage> {
  return { ...(inputTokens !== undefined && { inputTokens }), ...(outputTokens !== undefined && { outputTokens }) };
}

/**
 * The same for calls of one tool whose arguments are equal, whatever the order of their fields; undefined for arguments that cannot be written, which are
 * equal to nothing.
 */
export function sameCall({ name, input }: Pick<ToolCall, 'name' | 'input'>): string | undefined {
  try {
    return JSON.stringify([name, input], sorted);
  } catch {
    return undefined;
  }
}

function sorted(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
