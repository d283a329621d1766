import type { Stats } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../../journal/file-error.js';
import { placeOf } from '../../journal/same-file.js';
import { CliError, EXIT } from '../exit.js';
import { CsvRows } from './csv-rows.js';
import { FolderRows } from './folder-rows.js';
import { JsonRows } from './json-rows.js';
import type { FirstRows } from './placeholders.js';
import type { Row, RowSource } from './row.js';

export type RowFormat = 'jsonl' | 'csv' | 'folder';

export interface InputOptions {
  /** Absolute. */
  readonly path: string;
  /** What the user knows it as. */
  readonly shown: string;
  /** @defaultValue by what stands there, and its name */
  readonly format: RowFormat | undefined;
  /** Field that names a row; not of a folder. */
  readonly id: string | undefined;
  /** Absolute paths of what belongs to the run, and is no document. */
  readonly exclude: ReadonlySet<string>;
}

/** @throws CliError (exit code 2) when there is no such input, or nobody can tell what it is. */
export async function openRows({ path, shown, format, id, exclude }: InputOptions): Promise<RowSource> {
  const found = await look(path, shown);
  const known = format ?? formatOf(path, found);
  if (known === undefined)
    throw new CliError(EXIT.usage, `what is in \`${shown}\`? Its name ends neither in .jsonl nor .csv: give \`input.format\``);
  if ((known === 'folder') !== found.isDirectory())
    throw new CliError(EXIT.usage, `\`input.format\` is ${known}, and \`${shown}\` is ${found.isDirectory() ? 'a folder' : 'no folder'}`);
  if (known === 'folder') {
    if (id !== undefined)
      throw new CliError(EXIT.usage, '`input.id` names a field, and the files of a folder go by their paths: leave it out');
    const own = await Promise.all([...exclude].map(async (name) => join(await placeOf(dirname(name)), basename(name))));
    return new FolderRows(path, new Set(own));
  }
  if (!found.isFile()) throw new CliError(EXIT.usage, `\`${shown}\` is neither a file nor a folder`);
  return known === 'csv' ? new CsvRows(path, shown, found.size, id) : new JsonRows(path, found.size, id);
}

const WHY: Readonly<Record<string, string>> = { ENOENT: 'there is no such file or folder', EACCES: 'permission denied' };

async function look(path: string, shown: string): Promise<Stats> {
  try {
    const found = await stat(path);
    await access(path, constants.R_OK | (found.isDirectory() ? constants.X_OK : 0));
    return found;
  } catch (error) {
    const code = errorCode(error) ?? '';
    const why = WHY[code] ?? (code || 'it cannot be read');
    throw new CliError(EXIT.usage, `cannot read the input \`${shown}\`: ${why}`, error);
  }
}

function formatOf(path: string, found: Stats): RowFormat | undefined {
  if (found.isDirectory()) return 'folder';
  if (/\.(jsonl|ndjson)$/i.test(path)) return 'jsonl';
  return /\.(csv|tsv)$/i.test(path) ? 'csv' : undefined;
}

/** Of what is looked at before the first call. */
const MOST_LOOKED_AT = { rows: 100, characters: 1_000_000 };

/** What the first rows have, as far as it is needed to know their fields. @throws CliError (exit code 2) when the input cannot be read */
export async function firstRows(options: InputOptions): Promise<FirstRows> {
  // By its id, a row that has none would be no row.
  const source = await openRows({ ...options, id: undefined });
  const rows: Row['fields'][] = [];
  let seen = 0;
  let characters = 0;
  const isKnown = (): boolean => source.fields !== undefined;
  if (!isKnown())
    for await (const row of source.rows()) {
      // A header.
      if (isKnown()) break;
      seen += 1;
      if ('fields' in row) {
        rows.push(row.fields);
        characters += JSON.stringify(row.fields).length;
      }
      if (seen >= MOST_LOOKED_AT.rows || characters >= MOST_LOOKED_AT.characters) break;
    }
  return { rows, fields: source.fields };
}
