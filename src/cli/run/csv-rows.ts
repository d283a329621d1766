import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { parse } from 'csv-parse';
import { CliError, EXIT } from '../exit.js';
import { type BadRow, badRow, type Row, type RowSource, rowOf } from './row.js';

/** A quote that is never closed would take the rest of the file for one field. */
const MAX_RECORD_CHARACTERS = 16 * 1024 * 1024;
/** Enough for any header. */
const HEADER_BYTES = 64 * 1024;

/** A table: the first record names the fields, all values are texts; empty lines are passed over. */
export class CsvRows implements RowSource {
  readonly #path: string;
  readonly #shown: string;
  readonly #bytes: number;
  readonly #idField: string | undefined;
  #read = 0;
  /** Of the header, once that is read. */
  fields: readonly string[] | undefined;

  constructor(path: string, shown: string, bytes: number, idField: string | undefined) {
    this.#path = path;
    this.#shown = shown;
    this.#bytes = bytes;
    this.#idField = idField;
  }

  /** @throws CliError (exit code 2) when the header is missing, or names a field twice. */
  async *rows(): AsyncGenerator<Row | BadRow, void, undefined> {
    let number = 0;
    let names: readonly string[] | undefined;
    // The parser says at once what it passes over, and hands on records a little later.
    const skipped: BadRow[] = [];
    const parser = parse({
      bom: true,
      delimiter: await this.#delimiter(),
      relax_quotes: true,
      relax_column_count: true,
      skip_empty_lines: true,
      skip_records_with_error: true,
      max_record_size: MAX_RECORD_CHARACTERS,
      // Its place goes with each record; the types know only of texts.
      on_record: (record: string[], { bytes }) => [String(number++), String(bytes), ...record],
      on_skip: (error) => {
        if (error === undefined) return undefined;
        skipped.push(badRow(number, undefined, `${error.code} ${String(number)}`, SKIPPED[error.code] ?? error.message));
        number += 1;
        return undefined;
      },
    });
    const source = Readable.from(this.#pieces());
    source.on('error', (error) => parser.destroy(error));
    try {
      for await (const given of source.pipe(parser)) {
        const [place, bytes, ...record] = given as readonly string[];
        const at = Number(place);
        while (skipped[0] !== undefined && skipped[0].number < at) yield skipped.shift() as BadRow;
        this.#read = Number(bytes);
        if (names === undefined) this.fields = names = this.#header(record);
        else yield this.#row(at, names, record);
      }
    } finally {
      // A reader that stops early leaves no file open.
      source.destroy();
    }
    if (names === undefined) throw new CliError(EXIT.usage, `\`${this.#shown}\` has no header: its first line names the fields`);
    yield* skipped;
    this.#read = this.#bytes;
  }

  share(): number {
    return this.#bytes === 0 ? 1 : this.#read / this.#bytes;
  }

  /** @throws CliError (exit code 2) where a text could not be read */
  async *#pieces(): AsyncGenerator<Buffer, void, undefined> {
    const decoder = new TextDecoder('utf-8', { fatal: true });
    let isUtf16: boolean | undefined;
    for await (const piece of createReadStream(this.#path, { highWaterMark: 1 << 16 }) as AsyncIterable<Buffer>) {
      // Its mark is at the start; the parser reads it, too.
      isUtf16 ??= piece[0] === 0xff && piece[1] === 0xfe;
      try {
        if (!isUtf16) decoder.decode(piece, { stream: true });
      } catch (error) {
        throw new CliError(EXIT.usage, `\`${this.#shown}\` is not UTF-8: save it as that`, error);
      }
      yield piece;
    }
  }

  /** A comma, a semicolon or a tab: what is most often in the header. */
  async #delimiter(): Promise<string> {
    const file = await open(this.#path, 'r');
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0);
      const header = /^[^\n]*/.exec(buffer.toString('utf8', 0, bytesRead))?.[0] ?? '';
      const count = (delimiter: string): number => header.split(delimiter).length;
      return [',', ';', '\t'].reduce((best, next) => (count(next) > count(best) ? next : best));
    } finally {
      await file.close();
    }
  }

  #header(names: readonly string[]): readonly string[] {
    const trimmed = names.map((name) => name.trim());
    const problem = trimmed.includes('') ? 'a field without a name' : trimmed.find((name, i) => trimmed.indexOf(name) < i);
    if (problem === undefined) return trimmed;
    throw new CliError(
      EXIT.usage,
      `the header of \`${this.#shown}\` has ${problem === 'a field without a name' ? problem : `\`${problem}\` twice`}`,
    );
  }

  #row(number: number, names: readonly string[], record: readonly string[]): Row | BadRow {
    const content = JSON.stringify(record);
    if (record.length !== names.length)
      return badRow(number, undefined, content, `it has ${String(record.length)} fields, and the header ${String(names.length)}`);
    return rowOf(number, Object.fromEntries(names.map((name, i) => [name, record[i]])), this.#idField, content);
  }
}

const SKIPPED: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote in it is never closed, which takes all that follows with it',
  CSV_MAX_RECORD_SIZE: 'it is longer than 16 million characters; a quote in it may never be closed',
};
