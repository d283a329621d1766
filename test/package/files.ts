import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';

const project = resolve(import.meta.dirname, '../..');

/** Entries beside `index.ts`. */
const ENTRIES = ['build', 'interop'];

const files = readdirSync(join(project, 'operators'))
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts') && file !== 'index.ts')
  .map((file) => file.slice(0, -'.ts'.length))
  .filter((name) => !ENTRIES.includes(name))
  .sort();

const hasPage = (name: string): boolean => existsSync(join(project, `docs/operators/${name}.md`));

/** `batchMap` is in `batch-map.ts`. */
export const fileOf = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** Files of `operators/` that have a page of their own. */
export const operators: readonly string[] = files.filter(hasPage);
/** The others: values for options of operators. They share docs/values.md. */
export const values: readonly string[] = files.filter((name) => !hasPage(name));
