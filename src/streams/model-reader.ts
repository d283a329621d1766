import type { UnfinishedToolCallError } from '../../operators/index.js';
import { lateError, streamFault } from '../pipelines/provider-error.js';
import type { ModelPart } from './model-part.js';
import { isModelPart, NOTHING, stringOf, textPart } from './model-part.js';
import { OpenCalls } from './open-calls.js';
import type { AguiThoughts } from './read-ag-ui.js';
import { readAgui } from './read-ag-ui.js';
import type { OpenThoughts } from './read-anthropic.js';
import { readAnthropic } from './read-anthropic.js';
import { readChat } from './read-chat.js';
import type { GivenThoughts } from './read-responses.js';
import { readResponses } from './read-responses.js';

/** Longest arguments, of all calls that are open at a time, in characters: a stream that never ends a call must not fill the memory. */
const MAX_ARGUMENT_CHARS = 1_000_000;

/** Where events of a stream begin, and what ends it. Chunks of chat completions need no end: clients of that API do not show it. */
const FINISHES: ReadonlyMap<string, string> = new Map([
  ['message_start', '`message_stop`'],
  ['response.created', '`response.completed`'],
]);
const ENDS: ReadonlySet<string> = new Set(['message_stop', 'response.completed', 'response.incomplete', 'response.failed']);

/** Reasons that say nothing about what the answer is. */
const PLAIN_ENDS: ReadonlySet<string> = new Set(['stop', 'completed']);

/**
 * Reads the events of one answer of a model, in any of four protocols: chunks of chat completions, events of the Responses API, of Anthropic's
 * messages, and of AG-UI. Which one it is, each event says itself. A string is a piece of text, a {@link ModelPart} is itself, and whatever is
 * none of these says nothing.
 */
export class ModelReader {
  readonly #calls: OpenCalls;
  readonly #thoughts: { readonly anthropic: OpenThoughts; readonly responses: GivenThoughts; readonly agui: AguiThoughts } | undefined;

  #isRefused = false;
  /** What has to come, where the protocol has a finish of its own. */
  #missing: string | undefined;

  /** @param keepsThoughts - whether thinking that is to be given back is collected */
  constructor(operator: string, keepsThoughts = true) {
    this.#thoughts = keepsThoughts ? { anthropic: new Map(), responses: new Set(), agui: new Map() } : undefined;
    this.#calls = new OpenCalls(operator, MAX_ARGUMENT_CHARS);
  }

  /**
   * What this event adds to what was said before.
   *
   * @throws ProviderError when the event says that the model has failed; ItemTooHeavyError when the arguments of the open calls are too long
   */
  push(event: unknown): readonly ModelPart[] {
    if (typeof event === 'string') return textPart('text', event);
    if (typeof event !== 'object' || event === null) return NOTHING;
    const { type, choices, error } = event as { readonly type?: unknown; readonly choices?: unknown; readonly error?: unknown };
    if (Array.isArray(choices)) return this.#told(readChat(event, this.#calls), refusalIn(choices));
    if (type === 'error' || (type === undefined && error)) throw lateError(error ?? event);
    if (typeof type !== 'string') return NOTHING;
    if (isModelPart(event)) return [event];
    const typed = event as { readonly type: string };
    this.#missing = FINISHES.get(type) ?? (ENDS.has(type) ? undefined : this.#missing);
    if (type.startsWith('response.'))
      return this.#told(readResponses(typed, this.#calls, this.#thoughts?.responses), type === 'response.refusal.delta');
    return /^[A-Z]/.test(type)
      ? readAgui(typed, this.#calls, this.#thoughts?.agui)
      : readAnthropic(typed, this.#calls, this.#thoughts?.anthropic);
  }

  /** Chat completions and the Responses API end a refusal like any other answer. */
  #told(parts: readonly ModelPart[], isRefusal: boolean): readonly ModelPart[] {
    this.#isRefused ||= isRefusal;
    if (!this.#isRefused) return parts;
    return parts.map((part) => (part.type === 'stop' && PLAIN_ENDS.has(part.reason) ? { type: 'stop', reason: 'refusal' } : part));
  }

  /** The stream has ended: returns complete calls whose end was not announced. */
  end(): readonly ModelPart[] {
    return this.#calls.finishWhole(({ hasNoEnd }) => hasNoEnd);
  }

  /** After the end: that the stream was cut off, though no call was. */
  cut(): Error | undefined {
    return this.#missing === undefined ? undefined : streamFault(this.#missing, new Headers(), undefined);
  }

  /**
   * After the end: that there are calls which can never be whole, with their ids.
   *
   * @param unnamed - calls without an id so far
   */
  unfinished(unnamed = 0): UnfinishedToolCallError | undefined {
    return this.#calls.unfinished(unnamed);
  }
}

function refusalIn(choices: readonly unknown[]): boolean {
  const { index = 0, delta } = Object(choices[0]) as { readonly index?: unknown; readonly delta?: { readonly refusal?: unknown } | null };
  return index === 0 && stringOf(delta?.refusal) !== '';
}
