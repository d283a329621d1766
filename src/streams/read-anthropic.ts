import type { ModelPart } from './model-part.js';
import { NOTHING, textPart, usagePart } from './model-part.js';
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
  } | null;
  readonly delta?: {
    readonly type?: string;
    readonly text?: unknown;
    readonly thinking?: unknown;
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

export function readAnthropic(event: MessagesEvent, calls: OpenCalls): readonly ModelPart[] {
  const { delta, content_block: block, index: place = 0 } = event;
  switch (event.type) {
    case 'message_start':
      return usageOf(event.message?.usage);
    case 'content_block_start': {
      // Tools that the provider runs itself have other types.
      if (block?.type !== 'tool_use') return [...textPart('text', block?.text), ...textPart('reasoning', block?.thinking)];
      const call = calls.begin(place, block.id, block.name);
      if (hasFields(block.input)) calls.add(call, JSON.stringify(block.input));
      return NOTHING;
    }
    case 'content_block_delta': {
      const call = delta?.type === 'input_json_delta' ? calls.at(place) : undefined;
      if (call) calls.add(call, delta?.partial_json);
      return [...textPart('text', delta?.text), ...textPart('reasoning', delta?.thinking)];
    }
    // A block that was cut off is stopped as well. Why is said afterwards, so what may be cut off waits for that.
    case 'content_block_stop':
      return calls.finishWhole((call) => call.place === place);
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

function hasFields(input: unknown): boolean {
  return Object.keys(Object(input) as object).length > 0;
}

function usageOf(counts: Counts | null | undefined): readonly ModelPart[] {
  return usagePart(counts?.input_tokens, counts?.output_tokens);
}
