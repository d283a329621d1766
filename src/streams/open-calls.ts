import { ItemTooHeavyError, UnfinishedToolCallError } from '../../operators/index.js';
import { inputOf } from '../pipelines/tools/tool-formats.js';
import type { ModelPart } from './model-part.js';
import { NOTHING, stringOf } from './model-part.js';

/** A tool call whose arguments are still coming. */
export interface OpenCall {
  /** What the protocol calls it while it streams; several may have the same one after another. */
  readonly place: number | string;
  /** Whether the server gave that place. */
  readonly isPlaced: boolean;
  /** Empty until it is known, and of a server that gives none. */
  id: string;
  /** Empty until it is known. */
  name: string;
  /** The last piece of its name. */
  namePiece: string;
  /** Another name of the call in its events. */
  key: unknown;
  /** The pieces of its arguments so far, as one text. */
  text: string;
  /** Whether each piece came twice so far. */
  readonly pairs: Pairs;
  /** A tool that takes a text, not JSON. */
  isText: boolean;
  /** The protocol will not say when it is whole. */
  hasNoEnd: boolean;
  /** Its arguments were given as an empty object, which may be all, or stand before their text. */
  hasEmptyObject: boolean;
  /** Pieces of its arguments came at its own place. */
  isSteady: boolean;
  /** The place of its newest piece, where the server counts pieces and not calls. */
  grownTo: number | string | undefined;
  /** Arguments came that may be its own: it can never be whole. */
  isDoubtful: boolean;
}

/** The tool calls of one stream that are not whole yet, in the order in which they were begun. */
export class OpenCalls {
  readonly #operator: string;
  readonly #maxChars: number;
  readonly #finished = new Set<string>();
  /** Places of what is no call of ours: texts, and calls that the provider makes itself. */
  readonly others = new Set<number | string>();
  #open: OpenCall[] = [];
  #chars = 0;

  constructor(operator: string, maxChars: number) {
    this.#operator = operator;
    this.#maxChars = maxChars;
  }

  get all(): readonly OpenCall[] {
    return this.#open;
  }

  /** The newest at that place. */
  at(place: number | string | undefined): OpenCall | undefined {
    return this.#open.findLast((call) => call.place === place);
  }

  /** The newest with that id. */
  withId(id: unknown): OpenCall | undefined {
    return typeof id === 'string' && id !== '' ? this.#open.findLast((call) => call.id === id) : undefined;
  }

  /** Whether a call with that id was whole before. */
  isFinished(id: unknown): boolean {
    return typeof id === 'string' && this.#finished.has(id);
  }

  begin(place: number | string, id?: unknown, name?: unknown, isPlaced = true): OpenCall {
    const call: OpenCall = {
      place,
      isPlaced,
      id: stringOf(id),
      name: stringOf(name),
      namePiece: stringOf(name),
      key: undefined,
      text: '',
      pairs: new Pairs(),
      isText: false,
      hasNoEnd: false,
      hasEmptyObject: false,
      isSteady: false,
      grownTo: undefined,
      isDoubtful: false,
    };
    this.#open.push(call);
    return call;
  }

  /**
   * The call of a piece of arguments at a place where none was begun: some servers count pieces, not calls. When it is not the only open call, the piece
   * may belong to any call that has no arguments or only a part, and none of these can become whole.
   */
  only(place: number | string | undefined, piece: unknown): OpenCall | undefined {
    if (isNothing(piece)) return undefined;
    const [call, ...others] = this.#open.filter((each) => !isWhole(each));
    if (call && others.length === 0 && !call.isSteady && isAfter(place, call.grownTo ?? call.place)) {
      call.grownTo = place;
      return call;
    }
    // Space behind what is whole says nothing.
    if (call || !isBlank(piece)) for (const each of this.#open) if (!isWhole(each) || isEmpty(each)) each.isDoubtful = true;
    return undefined;
  }

  /** A piece of arguments comes at the place of the call itself. */
  atOwnPlace(call: OpenCall, piece: unknown): OpenCall {
    if (isNothing(piece)) return call;
    if (call.grownTo !== undefined) call.isDoubtful = true;
    call.isSteady = true;
    return call;
  }

  /**
   * @param piece - a text, or of some servers the arguments as they are; an empty object is often there before its text
   * @throws ItemTooHeavyError when the arguments of the open calls are longer than allowed
   */
  add(call: OpenCall, piece: unknown): void {
    if (isEmptyObject(piece)) call.hasEmptyObject ||= piece !== null;
    if (piece === undefined || isEmptyObject(piece)) return;
    const text = typeof piece === 'string' ? piece : JSON.stringify(piece);
    call.text += text;
    call.pairs.add(text);
    this.#chars += text.length;
    if (this.#chars > this.#maxChars) throw new ItemTooHeavyError(this.#operator, this.#chars, this.#maxChars);
  }

  replace(call: OpenCall, whole: unknown): void {
    this.#chars -= call.text.length;
    call.text = '';
    call.pairs.clear();
    call.isDoubtful = false;
    this.add(call, whole);
  }

  /** The protocol says that the call is whole, so what it has is what the model wanted, JSON or not. */
  finish(call: OpenCall): readonly ModelPart[] {
    const text = call.isDoubtful ? undefined : argumentsOf(call);
    if (call.name === '' || text === undefined) return NOTHING;
    this.#open = this.#open.filter((other) => other !== call);
    this.#chars -= call.text.length;
    const { id, name, isText } = call;
    if (id !== '') this.#finished.add(id);
    return [{ type: 'toolCall', call: { id, name, input: isText ? text : inputOf(text) } }];
  }

  /** Those whose arguments are an object that is closed: nothing can follow. */
  finishWhole(among: (call: OpenCall) => boolean = () => true): readonly ModelPart[] {
    return this.#finishAll((call) => among(call) && isWhole(call));
  }

  /** The model has ended by itself, or was cut off: then only what is whole beyond doubt is a call. */
  finishAll(isCut: boolean): readonly ModelPart[] {
    if (isCut) return this.finishWhole();
    this.#doubtEmpty();
    return this.#finishAll(() => true);
  }

  /** Where calls share a place, what made one of them unreadable may be the arguments of another, which seems to have none. */
  #doubtEmpty(): void {
    const broken = this.#open.filter((call) => !call.isText && call.text !== '' && !isJson(argumentsOf(call) ?? ''));
    for (const call of this.#open)
      if (call.text === '' && broken.some(({ place }) => place === call.place || !call.isPlaced)) call.isDoubtful = true;
  }

  #finishAll(which: (call: OpenCall) => boolean): readonly ModelPart[] {
    return this.#open.length === 0 ? NOTHING : this.#open.filter(which).flatMap((call) => this.finish(call));
  }

  /** What can never be whole now; `unnamed` calls without an id came before. */
  unfinished(unnamed: number): UnfinishedToolCallError | undefined {
    let n = unnamed;
    return this.#open.length === 0
      ? undefined
      : new UnfinishedToolCallError(
          this.#operator,
          this.#open.map(({ id }) => id || noId(++n)),
        );
  }
}

/** What a call without an id is called, counted in its stream. */
export function noId(n: number): string {
  return `no_id_${String(n)}`;
}

/** Looks whether each piece of a text comes twice: a server that sends everything again. */
class Pairs {
  #once = '';
  #first: string | undefined;
  #isPaired = true;

  add(piece: string): void {
    if (!this.#isPaired || piece === '') return;
    if (this.#first === undefined) {
      this.#first = piece;
      this.#once += piece;
    } else if (this.#first === piece) this.#first = undefined;
    else {
      this.#isPaired = false;
      this.#once = '';
    }
  }

  clear(): void {
    this.#once = '';
    this.#first = undefined;
    this.#isPaired = true;
  }

  /** The text of each second piece; undefined when not all came twice. */
  get once(): string | undefined {
    return this.#isPaired && this.#first === undefined && this.#once !== '' ? this.#once : undefined;
  }
}

/** What the pieces say together; undefined when that can be read in two ways. */
function argumentsOf({ text, pairs: { once }, isText }: OpenCall): string | undefined {
  if (once === undefined || (!isText && !isJson(once))) return text;
  return isText || isJson(text) ? undefined : once;
}

/** Whether its arguments are an object that is closed. */
export function isWhole(call: OpenCall): boolean {
  // Looked at often, parsed seldom.
  if (call.isText || call.isDoubtful || !call.text.trimEnd().endsWith('}')) return false;
  const text = argumentsOf(call);
  return text !== undefined && typeof inputOf(text) === 'object';
}

/** Whether it has no arguments, or an empty object. */
function isEmpty({ text }: OpenCall): boolean {
  return /^\s*(?:\{\s*\}\s*)?$/.test(text);
}

/** Whether it is no piece of arguments; space may be a part of one. */
export function isNothing(piece: unknown): boolean {
  return piece === '' || (typeof piece !== 'string' && Object(piece) !== piece);
}

/** Whether there is nothing but space in a piece of arguments. */
export function isBlank(piece: unknown): boolean {
  return typeof piece === 'string' ? piece.trim() === '' : Object(piece) !== piece;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Places that are no numbers have no order. */
function isAfter(place: number | string | undefined, other: number | string): boolean {
  return typeof place !== 'number' || typeof other !== 'number' || place >= other;
}

/** Null is none as well. */
function isEmptyObject(piece: unknown): boolean {
  return typeof piece === 'object' && Object.keys(piece ?? {}).length === 0;
}
