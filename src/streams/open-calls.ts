import { ItemTooHeavyError, UnfinishedToolCallError } from '../../operators/errors.js';
import { inputOf } from '../pipelines/tools/tool-formats.js';
import type { ModelPart } from './model-part.js';
import { NOTHING, stringOf } from './model-part.js';

/** A tool call whose arguments are still coming. */
export interface OpenCall {
  /** What the protocol calls it while it streams; several may have the same one after another. */
  readonly place: number | string;
  /** Empty until it is known, and of a server that gives none. */
  id: string;
  /** Empty until it is known. */
  name: string;
  /** The pieces of its arguments so far, as one text. */
  text: string;
  /** A tool that takes a text, not JSON. */
  isText: boolean;
  /** The protocol will not say when it is whole. */
  hasNoEnd: boolean;
}

/** The tool calls of one stream that are not whole yet, in the order in which they were begun. */
export class OpenCalls {
  readonly #operator: string;
  readonly #maxChars: number;
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

  begin(place: number | string, id?: unknown, name?: unknown): OpenCall {
    const call: OpenCall = { place, id: stringOf(id), name: stringOf(name), text: '', isText: false, hasNoEnd: false };
    this.#open.push(call);
    return call;
  }

  /**
   * @param piece - a text, or of some servers the arguments as they are; an empty object is often there before its text
   * @throws ItemTooHeavyError when the arguments of the open calls are longer than allowed
   */
  add(call: OpenCall, piece: unknown): void {
    if (piece === undefined || isEmptyObject(piece)) return;
    const text = typeof piece === 'string' ? piece : JSON.stringify(piece);
    call.text += text;
    this.#chars += text.length;
    if (this.#chars > this.#maxChars) throw new ItemTooHeavyError(this.#operator, this.#chars, this.#maxChars);
  }

  replace(call: OpenCall, whole: unknown): void {
    this.#chars -= call.text.length;
    call.text = '';
    this.add(call, whole);
  }

  /** The protocol says that the call is whole, so what it has is what the model wanted, JSON or not. */
  finish(call: OpenCall): readonly ModelPart[] {
    if (call.name === '') return NOTHING;
    this.#open = this.#open.filter((other) => other !== call);
    this.#chars -= call.text.length;
    const { id, name, text, isText } = call;
    return [{ type: 'toolCall', call: { id, name, input: isText ? text : inputOf(text) } }];
  }

  /** Those whose arguments are an object that is closed: nothing can follow. */
  finishWhole(among: (call: OpenCall) => boolean = () => true): readonly ModelPart[] {
    return this.#finishAll((call) => among(call) && isWhole(call));
  }

  /** The model has ended by itself, or was cut off: then only what is whole beyond doubt is a call. */
  finishAll(isCut: boolean): readonly ModelPart[] {
    return isCut ? this.finishWhole() : this.#finishAll(() => true);
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

/** Whether its arguments are an object that is closed. */
export function isWhole({ text, isText }: OpenCall): boolean {
  // Looked at often, parsed seldom.
  return !isText && text.trimEnd().endsWith('}') && typeof inputOf(text) === 'object';
}

/** Null is none as well. */
function isEmptyObject(piece: unknown): boolean {
  return typeof piece === 'object' && Object.keys(piece ?? {}).length === 0;
}
