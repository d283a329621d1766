import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { OPERATORS } from '../world/bundle.js';
import { BUGS } from './bugs.js';

// They are planted and found in `npm run test:deep`, hours after somebody has given a function another name.
it.each(BUGS)('there is a place to plant $name', async ({ file, of }) => {
  const module = (await import(resolve(OPERATORS, file))) as Readonly<Record<string, { readonly prototype: object } | undefined>>;
  const [name = '', member] = of.split('.');
  expect(module[name]).toBeTypeOf('function');
  if (member !== undefined) expect(Object.getOwnPropertyNames(module[name]?.prototype)).toContain(member);
});
