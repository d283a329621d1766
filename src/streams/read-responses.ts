import { lateError } from '../pipelines/provider-error.js';
import type { ModelPart } from './model-part.js';
import { NOTHING, textPart, usagePart } from './model-part.js';
import type { OpenCall, OpenCalls } from './open-calls.js';

/** What is read of an event of the Responses API. */
interface ResponsesEvent {
  readonly type: string;
  readonly output_index?: number;
  readonly delta?: unknown;
  readonly arguments?: unknown;
  readonly input?: unknown;
  readonly item?: Item | null;
  readonly response?: {
    readonly error?: unknown;
    readonly incomplete_details?: { readonly reason?: unknown } | null;
    readonly output?: readonly (Item | null)[] | null;
    readonly usage?: { readonly input_tokens?: unknown; readonly output_tokens?: unknown } | null;
  } | null;
}

interface Item {
  readonly type?: string;
  readonly call_id?: string;
  readonly name?: string;
  readonly status?: string;
  readonly arguments?: unknown;
  readonly input?: unknown;
  readonly encrypted_content?: unknown;
  readonly content?: unknown;
}

/** Places of reasoning that was handed on. */
export type GivenThoughts = Set<number>;

const CALLS: ReadonlySet<unknown> = new Set(['function_call', 'custom_tool_call']);

export function readResponses(event: ResponsesEvent, calls: OpenCalls, given?: GivenThoughts): readonly ModelPart[] {
  const { response, item, delta, output_index: place = 0 } = event;
  switch (event.type) {
    case 'response.output_text.delta':
    case 'response.refusal.delta':
      return textPart('text', delta);
    case 'response.reasoning_text.delta':
    case 'response.reasoning_summary_text.delta':
      return textPart('reasoning', delta);
    case 'response.output_item.added':
      if (isCall(item)) begin(place, item, calls);
      return NOTHING;
    case 'response.function_call_arguments.delta':
    case 'response.custom_tool_call_input.delta': {
      const call = calls.at(place);
      if (call) calls.add(call, delta);
      return NOTHING;
    }
    case 'response.function_call_arguments.done':
    case 'response.custom_tool_call_input.done': {
      const call = calls.at(place);
      if (call) settle(call, event, calls);
      return NOTHING;
    }
    case 'response.output_item.done': {
      if (!isCall(item)) {
        if (!isEncrypted(item)) return NOTHING;
        given?.add(place);
        return [{ type: 'opaque', protocol: 'responses', block: item }];
      }
      const call = calls.at(place) ?? begin(place, item, calls);
      settle(call, item, calls);
      return item.status === 'incomplete' ? NOTHING : calls.finish(call);
    }
    case 'response.completed':
      return [...calls.finishAll(false), ...lateThoughts(event, given), ...usageOf(event), { type: 'stop', reason: 'completed' }];
    case 'response.incomplete': {
      const reason = response?.incomplete_details?.reason;
      const stop = { type: 'stop', reason: typeof reason === 'string' ? reason : 'incomplete' } as const;
      return [...calls.finishWhole(), ...lateThoughts(event, given), ...usageOf(event), stop];
    }
    case 'response.failed':
      throw lateError(response?.error ?? 'the response has failed');
    default:
      return NOTHING;
  }
}

function isCall(item: Item | null | undefined): item is Item {
  return CALLS.has(item?.type);
}

/** Reasoning that can be given back to a server which has kept nothing. */
function isEncrypted(item: Item | null | undefined): item is Item {
  return item?.type === 'reasoning' && typeof item.encrypted_content === 'string' && item.encrypted_content !== '';
}

/** Some servers encrypt it only where they say all of the answer once more. */
function lateThoughts({ response }: ResponsesEvent, given: GivenThoughts | undefined): readonly ModelPart[] {
  const output = response?.output;
  if (!given || !Array.isArray(output)) return NOTHING;
  const parts: ModelPart[] = [];
  let afterChars = 0;
  let afterCalls = 0;
  for (const [place, item] of (output as readonly (Item | null)[]).entries()) {
    if (isCall(item)) afterCalls++;
    else if (isEncrypted(item) && !given.has(place))
      parts.push({ type: 'opaque', protocol: 'responses', block: item, afterChars, afterCalls });
    if (item?.type === 'message') afterChars += charsOf(item.content);
  }
  return parts;
}

function charsOf(content: unknown): number {
  const parts = Array.isArray(content) ? (content as readonly ({ readonly text?: unknown; readonly refusal?: unknown } | null)[]) : [];
  const texts = parts.map((part) => part?.text ?? part?.refusal);
  return texts.reduce<number>((chars, text) => chars + (typeof text === 'string' ? text.length : 0), 0);
}

function begin(place: number, { type, call_id, name }: Item, calls: OpenCalls): OpenCall {
  const call = calls.begin(place, call_id, name);
  call.isText = type === 'custom_tool_call';
  return call;
}

/** The whole of it, as it is said once more at the end, beats its pieces. */
function settle(call: OpenCall, said: Pick<Item, 'arguments' | 'input'>, calls: OpenCalls): void {
  const whole = said.arguments ?? said.input;
  if (whole !== undefined && whole !== null) calls.replace(call, whole);
}

function usageOf({ response }: ResponsesEvent): readonly ModelPart[] {
  return usagePart(response?.usage?.input_tokens, response?.usage?.output_tokens);
}
