import { expect, it } from 'vitest';
import { blamed } from '../../operators/kernel/index.js';

const call = ['a', 'b', 'twin', 'twin', '4'].map((id) => ({ id }));

it.each<[string, readonly (string | number)[] | undefined, readonly number[] | undefined]>([
  ['no names', undefined, undefined],
  ['an empty list', [], undefined],
  ['positions', [1, 4], [1, 4]],
  ['a position behind the last', [0, 5], undefined],
  ['an id', ['b'], [1]],
  ['an id that is a number in digits', ['4'], [4]],
  ['an id that no item has', ['a', 'c'], undefined],
  ['an id that two items have', ['twin'], undefined],
  ['an item twice, by position', [0, 0], undefined],
  ['an item twice, by position and by id', ['a', 0], undefined],
  ['positions and ids', ['b', 0, 3], [1, 0, 3]],
])('the items blamed by %s', (_, names, positions) => {
  expect(blamed(names, call)).toEqual(positions && new Set(positions.map((position) => call[position])));
});
