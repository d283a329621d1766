import { expect, it } from 'vitest';
import { subjects } from '../metrics/plants.js';
import { tellersOf } from '../support/tellers.js';

it('secrets are planted in everything that tells what happens', { timeout: 60_000 }, () => {
  const planted = new Set(Object.keys(subjects).map((name) => name.split(',')[0]));
  expect(tellersOf('src/index.ts').filter((name) => !planted.has(name))).toEqual([]);
});
