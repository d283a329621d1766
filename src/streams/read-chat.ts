import { lateError } from '../pipelines/provider-error.js';
import type { ModelPart } from './model-part.js';
import { NOTHING, textPart, usagePart } from './model-part.js';
import type { OpenCall, OpenCalls } from './open-calls.js';

/** What is read of a `chat.completion.chunk`; servers leave out what they like. */
interface Chunk {
  readonly choices?: readonly (Choice | null)[];
  readonly usage?: { readonly prompt_tokens?: unknown; readonly completion_tokens?: unknown } | null;
  readonly error?: unknown;
}

interface Choice {
  readonly index?: number;
  readonly finish_reason?: unknown;
  readonly delta?: {
    readonly content?: unknown;
    readonly refusal?: unknown;
    readonly reasoning?: unknown;
    readonly reasoning_content?: unknown;
    readonly tool_calls?: readonly (Piece | null)[] | null;
  } | null;
}

interface Piece {
  readonly index?: number | null;
  readonly id?: string | null;
  readonly function?: { readonly name?: string | null; readonly arguments?: unknown } | null;
  readonly custom?: { readonly name?: string | null; readonly input?: unknown } | null;
}

/** The answer is not what the model wanted to say. */
const CUT: ReadonlySet<unknown> = new Set(['length', 'content_filter']);

/** One chunk of a chat completion; of several choices, the first. */
export function readChat({ choices, usage, error }: Chunk, calls: OpenCalls): readonly ModelPart[] {
  if (error) throw lateError(error);
  const parts: ModelPart[] = [];
  for (const choice of choices ?? NOTHING) {
    if (!choice || (choice.index ?? 0) !== 0) continue;
    const { delta, finish_reason } = choice;
    parts.push(
      ...textPart('reasoning', delta?.reasoning_content ?? delta?.reasoning),
      ...textPart('text', delta?.content ?? delta?.refusal),
    );
    for (const piece of delta?.tool_calls ?? NOTHING) if (piece) take(piece, calls);
    if (typeof finish_reason !== 'string') continue;
    parts.push(...calls.finishAll(CUT.has(finish_reason)), { type: 'stop', reason: finish_reason });
  }
  return usage ? [...parts, ...usagePart(usage.prompt_tokens, usage.completion_tokens)] : parts;
}

function take(piece: Piece, calls: OpenCalls): void {
  const { custom, function: json } = piece;
  const name = json?.name ?? custom?.name ?? '';
  const call = callOf(piece, name, calls);
  if (call.id === '') call.id = piece.id ?? '';
  if (call.name === '') call.name = name;
  call.isText ||= custom !== undefined && custom !== null;
  calls.add(call, json?.arguments ?? custom?.input);
}

/**
 * Some servers give no index, some the same one to all, and some a new id with every piece; but only the first piece of a call has its name, or
 * all have the same id.
 */
function callOf({ index, id }: Piece, name: string, calls: OpenCalls): OpenCall {
  const place = index ?? undefined;
  const known = place === undefined ? (id ? calls.all.findLast((call) => call.id === id) : calls.all.at(-1)) : calls.at(place);
  const isOther = known !== undefined && name !== '' && !!id && known.id !== '' && known.id !== id;
  if (known !== undefined && !isOther) return known;
  const call = calls.begin(place ?? calls.all.length);
  call.hasNoEnd = true;
  return call;
}
