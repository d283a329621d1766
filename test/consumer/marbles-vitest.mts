import { of } from 'rxjs';
import { type MarbleMatchers, marbleMatchers, type SpecKit } from 'sluice/marbles/vitest';
import { batch } from 'sluice/operators';

const pairs = ({ input }: SpecKit) => input('source').pipe(batch({ maxSize: 2 }));
const inputs = { inputs: { source: '-a-b|' } };
const expectation = { ...inputs, expected: '---(x|)' };
const options = { values: { a: 1 } };
const matchers: MarbleMatchers = {
  toMatchMarbles: () => undefined,
  toEmit: () => undefined,
  toLeaveNothing: () => undefined,
};
matchers.toMatchMarbles(expectation);
const equals = (actual: unknown, expected: unknown): boolean => actual === expected;
const verdict = marbleMatchers.toEmit.call({ equals }, of(1), '(a|)', options);
export const passed: boolean = verdict.pass && marbleMatchers.toMatchMarbles.call({ equals }, pairs, expectation).pass;
