import { expect, it } from 'vitest';
import * as operators from '../../operators/index.js';
import { CASES } from '../waiting/operators.js';
import { problemsOf } from '../waiting/spec.js';

it.each(Object.entries(CASES))('%s lets wait, evicts and refuses as bounds, overflow and deadlines say', async (_name, each) => {
  expect(await problemsOf(operators, each)).toEqual([]);
});
