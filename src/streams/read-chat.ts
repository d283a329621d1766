import { isReason } from '../pipelines/finish-reason.js';
import { lateError } from '../pipelines/provider-error.js';
import type { ModelPart } from './model-part.js';
import { NOTHING, stringOf, textPart, usagePart } from './model-part.js';
import type { OpenCall, OpenCalls } from './open-calls.js';
import { isBlank, isNothing, isWhole } from './open-calls.js';

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
    if (!isReason(finish_reason)) continue;
    parts.push(...calls.finishAll(CUT.has(finish_reason)), { type: 'stop', reason: finish_reason });
  }
  return usage ? [...parts, ...usagePart(usage.prompt_tokens, usage.completion_tokens)] : parts;
}

function take(piece: Piece, calls: OpenCalls): void {
  const { custom, function: json } = piece;
  const said = {
    place: piece.index ?? undefined,
    id: stringOf(piece.id),
    name: stringOf(json?.name ?? custom?.name),
    given: json?.arguments ?? custom?.input,
  };
  const call = said.name === '' ? continued(said, calls) : named(said, calls);
  if (call === undefined) return;
  call.id ||= said.id;
  if (said.name !== '') joinName(call, said.name);
  call.isText ||= custom !== undefined && custom !== null;
  calls.add(call, said.given);
}

interface Said {
  readonly place: number | undefined;
  readonly id: string;
  readonly name: string;
  readonly given: unknown;
}

/** Some servers give the same index or the same id to all calls. */
function withId({ place, id }: Said, calls: OpenCalls): OpenCall | undefined {
  const here = calls.at(place);
  return here?.id === id && id !== '' ? here : calls.withId(id);
}

/** The call of a piece without a name. Some servers give no index, some the same one to all calls, some count pieces, and some give a new id to each piece. */
function continued(said: Said, calls: OpenCalls): OpenCall | undefined {
  const { place, id, given } = said;
  const known = withId(said, calls);
  if (known) return known;
  const here = calls.at(place);
  if (here) return calls.atOwnPlace(here, given);
  if (place === undefined && id === '') return calls.all.at(-1) ?? begin(said, calls);
  // A call whose name is still to come.
  if (isNothing(given)) return id === '' ? undefined : begin(said, calls);
  const only = calls.only(place, given);
  return only ?? (isBlank(given) ? undefined : begin(said, calls));
}

/** The call of a piece with a name: a new one, or one whose name is repeated, or comes in pieces. */
function named(said: Said, calls: OpenCalls): OpenCall {
  const { place, id } = said;
  const newest = calls.all.at(-1);
  const known = withId(said, calls) ?? calls.at(place) ?? (id === '' && (place === undefined || newest?.id) ? newest : undefined);
  return known && !isOther(known, said) ? known : begin(said, calls);
}

/** Whether a piece with a name begins another call. */
function isOther(call: OpenCall, { place, id, name, given }: Said): boolean {
  const isSame = id !== '' && call.id === id;
  if (id !== '' && call.id !== '' && !isSame) return true;
  const isAnother = call.name !== '' && call.name !== name;
  if (isWhole(call)) {
    if (isAnother && !isSame) return true;
    // The same once more is no other call, where calls have ids.
    return !isBlank(given) && (call.id === '' || given !== call.text);
  }
  if (!isAnother || isSame) return false;
  const isHere = call.id !== '' || (place !== undefined && call.place === place);
  return !isHere || call.text !== '' || call.hasEmptyObject;
}

function begin({ place }: Said, calls: OpenCalls): OpenCall {
  const call = calls.begin(place ?? calls.all.length, '', '', place !== undefined);
  call.hasNoEnd = true;
  return call;
}

/** Names come before arguments: in pieces, repeated, or both. */
function joinName(call: OpenCall, piece: string): void {
  if (piece === call.name || piece === call.namePiece || (call.text !== '' && call.name !== '')) return;
  call.name += piece;
  call.namePiece = piece;
}
