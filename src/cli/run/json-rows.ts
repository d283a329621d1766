import { readLines } from '../../journal/lines.js';
import { isTooDeep, MOST_NESTED } from './nesting.js';
import { type BadRow, badRow, type Row, type RowSource, rowOf } from './row.js';

/** A JSON object on each line; empty lines are passed over. */
export class JsonRows implements RowSource {
  readonly fields = undefined;
  readonly #path: string;
  readonly #bytes: number;
  readonly #idField: string | undefined;
  #read = 0;

  constructor(path: string, bytes: number, idField: string | undefined) {
    this.#path = path;
    this.#bytes = bytes;
    this.#idField = idField;
  }

  async *rows(): AsyncGenerator<Row | BadRow, void, undefined> {
    for await (const { number, text, endOffset, isUtf8 } of readLines(this.#path)) {
      this.#read = endOffset;
      if (!isUtf8) {
        yield badRow(number, undefined, text, 'it is not UTF-8');
        continue;
      }
      if (text.trim() !== '') yield this.#row(number, text);
    }
  }

  share(): number {
    return this.#bytes === 0 ? 1 : this.#read / this.#bytes;
  }

  #row(number: number, text: string): Row | BadRow {
    let fields: unknown;
    try {
      fields = JSON.parse(text);
    } catch {
      return badRow(number, undefined, text, 'it is not JSON');
    }
    if (typeof fields !== 'object' || fields === null || Array.isArray(fields))
      return badRow(number, undefined, text, 'it is not a JSON object');
    if (isTooDeep(fields)) return badRow(number, undefined, text, `it is nested more than ${String(MOST_NESTED)} deep`);
    return rowOf(number, fields as Readonly<Record<string, unknown>>, this.#idField, text);
  }
}
