import { describe, expect, it } from 'vitest';
import { FlowConfigError, isFlowError } from '../operators/index.js';
import type { MisuseRow, MisuseTable } from './support/misuse.js';
import { messageOf, misuseTables, operatorOf, reported, say, show } from './support/misuse.js';

const tables = await misuseTables();

/** What is wrong with how a wrong value is refused; nothing, when it is refused as its row says. */
function problem(table: MisuseTable, row: MisuseRow): string | undefined {
  const operator = operatorOf(table, row.option);
  const { value } = row;
  const option = reported(table, row.option);
  let thrown: unknown;
  try {
    say(table, row);
    return `${show(value)} is taken`;
  } catch (error) {
    thrown = error;
  }
  if (!(thrown instanceof FlowConfigError) || !isFlowError(thrown, 'FLOW_CONFIG_INVALID')) return `${show(value)}: ${String(thrown)}`;
  const message = `${operator}: ${messageOf(table, row)}`;
  // `unknown option `lane` in `ask options`.`
  const said = thrown.message.replace(/(: unknown option `[^`]+`) in `[\w ]+`\./, '$1.');
  if (said !== message) return `said: ${thrown.message}, instead of: ${message}`;
  // What stands under an unknown name may be a secret.
  const got = row.problem === undefined ? value : undefined;
  const isRight = thrown.operator === operator && thrown.option === option && Object.is(thrown.got, got);
  return isRight && thrown.expected === row.expected.replaceAll('{option}', option)
    ? undefined
    : `${show(value)}: the fields of the error are others than its message`;
}

describe.each(tables)('$operator', (table) => {
  const { operator, create, rows } = table;
  const options = [...new Set(rows.map(({ option }) => option))];

  it.runIf(options.length > 0).each(options)('refuses what `%s` cannot be', (option) => {
    const given = rows.filter((row) => row.option === option);
    expect(given.flatMap((row) => problem(table, row) ?? [])).toEqual([]);
  });

  it.runIf(table.optionless === undefined)('refuses what are no options', () => {
    for (const options of [null, 5, 'fast'])
      expect(() => create(options as never)).toThrow(`${operator}: expected \`options\` to be an object`);
  });
});
