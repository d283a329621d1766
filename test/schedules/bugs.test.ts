import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { OPERATORS, replaced } from '../world/bundle.js';
import { BUGS } from './bugs.js';

// The bugs are planted only in `npm run test:deep`. This test notices at once when a function that they replace has a new name.
it.each(BUGS)('there is a place to plant $name', async ({ file, of, was }) => {
  const module = (await import(resolve(OPERATORS, file))) as Readonly<Record<string, { readonly prototype: object } | undefined>>;
  if (was) expect(replaced(await readFile(resolve(OPERATORS, file), 'utf8'), was)).toContain(was[1]);
  const [name = '', member] = of.split('.');
  expect(module[name]).toBeTypeOf('function');
  if (member !== undefined) expect(Object.getOwnPropertyNames(module[name]?.prototype)).toContain(member);
});
