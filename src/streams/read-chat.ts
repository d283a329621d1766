import { lateError } from '../pipelines/provider-error.js';
import type { ModelPart } from './model-part.js';
import { NOTHING, stringOf, textPart, usagePart } from './model-part.js';
import type { OpenCall, OpenCalls } from './open-calls.js';
import { isWhole } from './open-calls.js';

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
    readonly tool_calls?: unknown;
  } | null;
}

interface Piece {
  readonly index?: number | null;
  readonly id?: unknown;
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown } | null;
  readonly custom?: { readonly name?: unknown; readonly input?: unknown } | null;
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
    const pieces: readonly (Piece | null)[] = Array.isArray(delta?.tool_calls) ? delta.tool_calls : NOTHING;
    for (const piece of pieces) if (piece) take(piece, calls);
    if (typeof finish_reason !== 'string') continue;
    parts.push(...calls.finishAll(CUT.has(finish_reason)), { type: 'stop', reason: finish_reason });
  }
  return usage ? [...parts, ...usagePart(usage.prompt_tokens, usage.completion_tokens)] : parts;
}

function take(piece: Piece, calls: OpenCalls): void {
  const { custom, function: json } = piece;
  const id = stringOf(piece.id);
  const name = stringOf(json?.name ?? custom?.name);
  const given = json?.arguments ?? custom?.input;
  const call = callOf(piece.index ?? undefined, { id, name, given }, calls);
  call.id ||= id;
  call.name ||= name;
  call.isText ||= custom !== undefined && custom !== null;
  calls.add(call, given);
}

/**
 * Some servers give no index, some the same one to all, and some a new id with every piece; but only the first piece of a call has its name, or
 * all have the same id. Of calls without ids, one begins where another tool is named, or where more comes for one that is whole.
 */
function callOf(
  place: number | undefined,
  { id, name, given }: { readonly id: string; readonly name: string; readonly given: unknown },
  calls: OpenCalls,
): OpenCall {
  const newest = id === '' ? calls.all.at(-1) : calls.all.findLast((call) => call.id === id);
  const known = place === undefined ? newest : calls.at(place);
  const isOther = (call: OpenCall): boolean => {
    if (call.id !== '' && id !== '') return call.id !== id;
    return call.id === id && call.name !== '' && (call.name !== name || (isWhole(call) && !isBlank(given)));
  };
  if (known !== undefined && (name === '' || !isOther(known))) return known;
  const call = calls.begin(place ?? calls.all.length);
  call.hasNoEnd = true;
  return call;
}

function isBlank(given: unknown): boolean {
  return typeof given === 'string' ? given.trim() === '' : Object(given) !== given;
}
