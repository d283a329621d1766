import { readUsage } from '../account/read-usage.js';
import type { ModelPart } from './model-part.js';
import { NOTHING, stringOf, textPart, usagePart } from './model-part.js';
import type { OpenCalls } from './open-calls.js';

/** What is read of an event of Anthropic's messages. */
interface MessagesEvent {
  readonly type: string;
  readonly index?: number;
  readonly message?: { readonly usage?: Counts | null } | null;
  readonly usage?: Counts | null;
  readonly content_block?: {
    readonly type?: string;
    readonly id?: string;
    readonly name?: string;
    readonly input?: unknown;
    readonly text?: unknown;
    readonly thinking?: unknown;
    readonly signature?: unknown;
    readonly data?: unknown;
  } | null;
  readonly delta?: {
    readonly type?: string;
    readonly text?: unknown;
    readonly thinking?: unknown;
    readonly signature?: unknown;
    readonly partial_json?: unknown;
    readonly stop_reason?: unknown;
  } | null;
}

interface Counts {
  readonly input_tokens?: unknown;
  readonly output_tokens?: unknown;
}

/** The model has ended where it wanted to. */
const WHOLE: ReadonlySet<unknown> = new Set(['end_turn', 'tool_use', 'stop_sequence', 'pause_turn']);

/** Thinking that is not whole yet, by the place of its block. */
export type OpenThoughts = Map<number, Thought>;

type Thought = { type: 'thinking'; thinking: string; signature: string } | { type: 'redacted_thinking'; data: string };

export function readAnthropic(event: MessagesEvent, calls: OpenCalls, thoughts?: OpenThoughts): readonly ModelPart[] {
  const { delta, content_block: block, index: place = 0 } = event;
  switch (event.type) {
    case 'message_start':
      return usageOf(event.message?.usage);
    case 'content_block_start': {
      // Tools that the provider runs itself have other types.
      const thought = thoughts && thoughtOf(block);
      if (thought) thoughts.set(place, thought);
      if (block?.type !== 'tool_use') {
        calls.others.add(place);
        return [...textPart('text', block?.text), ...textPart('reasoning', block?.thinking)];
      }
      calls.others.delete(place);
      // The same once more begins no other call.
      if (calls.at(place)?.id !== block.id || !block.id) calls.add(calls.begin(place, block.id, block.name), block.input);
      return NOTHING;
    }
    case 'content_block_delta': {
      if (delta?.type === 'input_json_delta' && !calls.others.has(place)) {
        const here = calls.at(place);
        const call = here ? calls.atOwnPlace(here, delta.partial_json) : calls.only(place, delta.partial_json);
        if (call) calls.add(call, delta.partial_json);
      }
      goOn(thoughts?.get(place), delta);
      return [...textPart('text', delta?.text), ...textPart('reasoning', delta?.thinking)];
    }
    // A block that was cut off is stopped as well. Why is said afterwards, so what may be cut off waits for that.
    case 'content_block_stop': {
      const thought = thoughts?.get(place);
      thoughts?.delete(place);
      return isSigned(thought)
        ? [{ type: 'opaque', protocol: 'anthropic', block: thought }]
        : calls.finishWhole((call) => call.place === place);
    }
    case 'message_delta': {
      const reason = delta?.stop_reason;
      const ended: readonly ModelPart[] =
        typeof reason === 'string' ? [...calls.finishAll(!WHOLE.has(reason)), { type: 'stop', reason }] : NOTHING;
      return [...usageOf(event.usage), ...ended];
    }
    default:
      return NOTHING;
  }
}

function thoughtOf(block: MessagesEvent['content_block']): Thought | undefined {
  const { type, thinking, signature, data } = block ?? {};
  if (type === 'redacted_thinking' && typeof data === 'string') return { type, data };
  return type === 'thinking' ? { type, thinking: stringOf(thinking), signature: stringOf(signature) } : undefined;
}

function goOn(thought: Thought | undefined, delta: MessagesEvent['delta']): void {
  if (thought?.type !== 'thinking') return;
  thought.thinking += stringOf(delta?.thinking);
  // Said once, and whole.
  thought.signature = stringOf(delta?.signature) || thought.signature;
}

/** Thinking that was cut off has no signature, and is refused without. */
function isSigned(thought: Thought | undefined): thought is Thought {
  return thought !== undefined && (thought.type === 'redacted_thinking' || thought.signature !== '');
}

function usageOf(counts: Counts | null | undefined): readonly ModelPart[] {
  // Cached tokens are counted beside the input.
  const { inputTokens, outputTokens } = readUsage({ usage: counts }) ?? {};
  return usagePart(inputTokens, outputTokens);
}
