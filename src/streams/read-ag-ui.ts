import { lateError } from '../pipelines/provider-error.js';
import type { ModelPart } from './model-part.js';
import { NOTHING, textPart } from './model-part.js';
import type { OpenCall, OpenCalls } from './open-calls.js';
import { isWhole } from './open-calls.js';

/** What is read of an AG-UI event. */
interface AguiEvent {
  readonly type: string;
  readonly toolCallId?: string | null;
  readonly toolCallName?: string | null;
  readonly messageId?: unknown;
  readonly subtype?: unknown;
  readonly entityId?: unknown;
  readonly encryptedValue?: unknown;
  readonly delta?: unknown;
  readonly message?: unknown;
  readonly code?: unknown;
  readonly outcome?: { readonly type?: unknown } | null;
}

/** What was thought so far, by message. */
export type AguiThoughts = Map<unknown, string>;

/** A call without an end of its own: it is open until something else comes. */
const isOfChunks = (call: OpenCall): boolean => call.hasNoEnd;

export function readAgui(event: AguiEvent, calls: OpenCalls, thoughts?: AguiThoughts): readonly ModelPart[] {
  const id = event.toolCallId ?? '';
  switch (event.type) {
    case 'TOOL_CALL_CHUNK':
      return chunk(event, calls);
    case 'TOOL_CALL_START':
      // The same once more begins no other call.
      if (id === '' || !calls.at(id)) calls.begin(id, id, event.toolCallName ?? '');
      return NOTHING;
    case 'TOOL_CALL_ARGS': {
      // With another id it is of a call that was never begun.
      const call = calls.at(id) ?? (id === '' ? calls.only(id, event.delta) : undefined);
      if (call) calls.add(call, event.delta);
      return NOTHING;
    }
    case 'TOOL_CALL_END': {
      const [only, ...others] = calls.all;
      const call = calls.at(id) ?? (id === '' && others.length === 0 ? only : undefined);
      return call ? calls.finish(call) : NOTHING;
    }
    case 'TEXT_MESSAGE_CONTENT':
    case 'TEXT_MESSAGE_CHUNK':
      return [...calls.finishWhole(isOfChunks), ...textPart('text', event.delta)];
    case 'REASONING_MESSAGE_START':
    case 'REASONING_MESSAGE_CONTENT':
    case 'REASONING_MESSAGE_CHUNK':
    case 'THINKING_TEXT_MESSAGE_CONTENT':
      think(event, thoughts);
      return [...calls.finishWhole(isOfChunks), ...textPart('reasoning', event.delta)];
    case 'REASONING_ENCRYPTED_VALUE':
      return encrypted(event, thoughts);
    case 'RUN_FINISHED': {
      const reason = event.outcome?.type;
      const isCut = reason === 'cancelled';
      return [...finishRest(isCut, calls), { type: 'stop', reason: typeof reason === 'string' ? reason : 'success' }];
    }
    case 'RUN_ERROR':
      throw lateError({ message: event.message, code: event.code });
    default:
      return calls.finishWhole(isOfChunks);
  }
}

/** A chunk without an id continues the last one. */
function think({ messageId, delta }: AguiEvent, thoughts: AguiThoughts | undefined): void {
  const id = messageId ?? [...(thoughts?.keys() ?? [])].at(-1);
  thoughts?.set(id, (thoughts.get(id) ?? '') + (typeof delta === 'string' ? delta : ''));
}

/** It belongs to a call, to what was thought, or to the answer. */
function encrypted({ subtype, entityId, encryptedValue }: AguiEvent, thoughts: AguiThoughts | undefined): readonly ModelPart[] {
  if (!thoughts || typeof encryptedValue !== 'string') return NOTHING;
  const content = thoughts.get(entityId);
  const owner =
    subtype === 'tool-call' ? { toolCallId: entityId } : content === undefined ? {} : { id: entityId, role: 'reasoning', content };
  return [{ type: 'opaque', protocol: 'ag-ui', block: { ...owner, encryptedValue } }];
}

/** The first one of a call names it; one without an id continues the last. */
function chunk({ toolCallId, toolCallName, delta }: AguiEvent, calls: OpenCalls): readonly ModelPart[] {
  const known = toolCallId ? calls.at(toolCallId) : calls.all.findLast(isOfChunks);
  const call = known ?? (toolCallId && toolCallName ? calls.begin(toolCallId, toolCallId, toolCallName) : undefined);
  // Of a call that was whole already: nothing but space can follow.
  if (call === undefined) return NOTHING;
  if (known === undefined) call.hasNoEnd = true;
  calls.add(call, delta);
  return calls.finishWhole((other) => isOfChunks(other) && other !== call);
}

/** The run has ended, and with it the calls in chunks; of the others those that are whole, though their end was not told. */
function finishRest(isCut: boolean, calls: OpenCalls): readonly ModelPart[] {
  if (isCut) return calls.finishWhole(isOfChunks);
  return [...calls.all].flatMap((call) => (isOfChunks(call) || isWhole(call) ? calls.finish(call) : NOTHING));
}
