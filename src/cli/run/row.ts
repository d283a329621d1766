import { createHash } from 'node:crypto';

/** One row of the input, or a document of a folder. */
export interface Row {
  /** Where it stands: its line, its record behind the header, or its place in the folder; from 1. */
  readonly number: number;
  readonly id: string;
  /** 16 hexadecimal digits of its id and content: rows that are equal in both are one another's stand-in. */
  readonly key: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Something that stands where a row was expected. */
export interface BadRow {
  readonly number: number;
  readonly id: string;
  readonly key: string;
  readonly problem: string;
}

/** The rows of an input, one at a time, whatever its size. */
export interface RowSource {
  rows(): AsyncGenerator<Row | BadRow, void, undefined>;
  /** How much of the input has been read, from 0 to 1. */
  share(): number;
}

export function keyOf(id: string, content: string): string {
  return createHash('sha256').update(id).update('\0').update(content).digest('hex').slice(0, 16);
}

export function badRow(number: number, id: string, content: string, problem: string): BadRow {
  return { number, id, key: keyOf(id, content), problem };
}

/**
 * A row of fields.
 *
 * @param idField which field names it; without one it is `id` where that is a text or a number, else the row's number.
 * @param content what stands in the file.
 */
export function rowOf(
  number: number,
  fields: Readonly<Record<string, unknown>>,
  idField: string | undefined,
  content: string,
): Row | BadRow {
  const given = Object.hasOwn(fields, idField ?? 'id') ? fields[idField ?? 'id'] : undefined;
  const id = (typeof given === 'string' && given !== '') || typeof given === 'number' ? String(given) : undefined;
  if (id === undefined && idField !== undefined) return badRow(number, String(number), content, `it has no \`${idField}\` to be known by`);
  return { number, id: id ?? String(number), key: keyOf(id ?? '', content), fields };
}
