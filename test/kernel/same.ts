import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';

/** `toEqual` where it is asked a hundred thousand times: only what differs is looked at by it. */
export function same(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toEqual(expected);
}
