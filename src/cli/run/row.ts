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
  /** Names of the fields of all rows, as far as they are known; undefined where each row says its own. */
  readonly fields: readonly string[] | undefined;
  /** How much of the input has been read, from 0 to 1. */
  share(): number;
  /** How many rows it has, where that is known before all are read. */
  readonly count?: number | undefined;
}

export function keyOf(id: string, content: string): string {
  return createHash('sha256').update(id).update('\0').update(content).digest('hex').slice(0, 16);
}

/** @param id undefined when it has none: it goes by its key then, as rows do. */
export function badRow(number: number, id: string | undefined, content: string, problem: string): BadRow {
  const key = keyOf(id ?? problem, content);
  return { number, id: id ?? key, key, problem };
}

/**
 * A row of fields.
 *
 * @param idField which field names it; without one it is `id` where that is a text or a number, else the row goes by its key.
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
  if (id === undefined && idField !== undefined) return badRow(number, undefined, content, `it has no \`${idField}\` to be known by`);
  const key = keyOf(id ?? '', content);
  return { number, id: id ?? key, key, fields };
}
