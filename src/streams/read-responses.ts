import { lateError } from '../pipelines/provider-error.js';
import type { ModelPart } from './model-part.js';
import { NOTHING, textPart, usagePart } from './model-part.js';
import type { OpenCall, OpenCalls } from './open-calls.js';

/** What is read of an event of the Responses API. */
interface ResponsesEvent {
  readonly type: string;
  readonly output_index?: number;
  readonly item_id?: unknown;
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
  readonly id?: unknown;
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
      // The same once more begins no other call.
      if (isCall(item) && !calls.withId(item.call_id) && !calls.isFinished(item.call_id)) begin(place, item, calls);
      return NOTHING;
    case 'response.function_call_arguments.delta':
    case 'response.custom_tool_call_input.delta': {
      const here = callOf(event.item_id, place, calls);
      const call = here ? calls.atOwnPlace(here, delta) : calls.only(place, delta);
      if (call) calls.add(call, delta);
      return NOTHING;
    }
    case 'response.function_call_arguments.done':
    case 'response.custom_tool_call_input.done': {
      const call = callOf(event.item_id, place, calls) ?? calls.only(place, event.arguments ?? event.input);
      if (call) settle(call, event, calls);
      return NOTHING;
    }
    case 'response.output_item.done': {
      if (!isCall(item)) {
        if (!isEncrypted(item)) return NOTHING;
        given?.add(place);
        return [{ type: 'opaque', protocol: 'responses', block: item }];
      }
      if (calls.isFinished(item.call_id)) return NOTHING;
      const call = itemCall(place, item, calls) ?? begin(place, item, calls);
      settle(call, item, calls);
      return item.status === 'incomplete' ? NOTHING : calls.finish(call);
    }
    case 'response.completed':
      return [...finishAll(event, calls), ...lateThoughts(event, given), ...usageOf(event), { type: 'stop', reason: 'completed' }];
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

function begin(place: number, { type, id, call_id, name }: Item, calls: OpenCalls): OpenCall {
  const call = calls.begin(place, call_id, name);
  call.isText = type === 'custom_tool_call';
  call.key = id;
  return call;
}

/** By the id of its item, which is the same in all its events, else by its place. */
function callOf(itemId: unknown, place: number, calls: OpenCalls): OpenCall | undefined {
  return (itemId === undefined ? undefined : calls.all.findLast(({ key }) => key === itemId)) ?? calls.at(place);
}

function itemCall(place: number, { id, call_id }: Item, calls: OpenCalls): OpenCall | undefined {
  const known = calls.withId(call_id);
  if (known) return known;
  const here = callOf(id, place, calls);
  // One with another id is another call.
  return here?.id && call_id ? undefined : here;
}

/** All of the answer is said once more at its end. A call whose end nothing told, and whose arguments never came, is not whole. */
function finishAll({ response }: ResponsesEvent, calls: OpenCalls): readonly ModelPart[] {
  const output: unknown = response?.output;
  const parts: ModelPart[] = [];
  for (const item of Array.isArray(output) ? (output as readonly (Item | null)[]) : NOTHING) {
    const call = isCall(item) ? calls.withId(item.call_id) : undefined;
    if (!call || !item) continue;
    settle(call, item, calls);
    parts.push(...calls.finish(call));
  }
  for (const call of calls.all) if (call.text === '') call.isDoubtful = true;
  return [...parts, ...calls.finishAll(false)];
}

/** The whole of it, as it is said once more at the end, beats its pieces. What is empty there says nothing against pieces that came. */
function settle(call: OpenCall, said: Pick<Item, 'arguments' | 'input'>, calls: OpenCalls): void {
  const whole = said.arguments ?? said.input;
  if (whole === undefined || whole === null || (call.text !== '' && isNothing(whole))) return;
  calls.replace(call, whole);
}

function isNothing(whole: unknown): boolean {
  return typeof whole === 'string'
    ? /^\s*(?:\{\s*\}\s*)?$/.test(whole)
    : Object.keys(Object(whole) as object).length === 0 && Object(whole) === whole;
}

function usageOf({ response }: ResponsesEvent): readonly ModelPart[] {
  return usagePart(response?.usage?.input_tokens, response?.usage?.output_tokens);
}
