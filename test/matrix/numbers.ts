import { expect } from 'vitest';
import { FlowConfigError } from '../../operators/index.js';
import { misuseTables, say } from '../support/misuse.js';

const tables = new Map((await misuseTables('operators')).map((table) => [table.operator, table]));

/** The options that are numbers, by what the misuse table says they should be. */
function numbersOf(operator: string): { readonly option: string; readonly expected: string; readonly besides?: object }[] {
  const rows = tables.get(operator)?.rows ?? [];
  const first = rows.filter(({ option }, i) => rows.findIndex((row) => row.option === option) === i);
  return first.filter(({ expected }) => /^a (?:whole |finite )?number\b/.test(expected));
}

function isRefused(operator: string, option: string, value: number, besides: object = {}): boolean {
  try {
    say(tables.get(operator)!, { option, value, besides: besides as Record<string, unknown> });
  } catch (error) {
    return error instanceof FlowConfigError;
  }
  return false;
}

/** Every number among the options: NaN and what is below its least value are refused where the operator is made. */
export const refusesNumbers = (operator: string) => (): void => {
  const numbers = numbersOf(operator);
  expect(numbers).not.toEqual([]);
  const taken = numbers.flatMap(({ option, expected, besides }) =>
    [NaN, -1, ...(/>= 0|from 0 |a finite number$|a whole number$/.test(expected) ? [] : [0])]
      .filter((value) => !(/^a (?:whole|finite) number$/.test(expected) && value === -1) && !isRefused(operator, option, value, besides))
      .map((value) => `${option}: ${String(value)}`),
  );
  expect(taken).toEqual([]);
};
