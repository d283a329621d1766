import { describe, expect, it } from 'vitest';
import type { MisuseRow } from './support/misuse.js';
import { misuseTables, reported, say, show } from './support/misuse.js';
import { FlowConfigError, isFlowError } from './today.js';

const tables = await misuseTables();

const titled = (rows: readonly MisuseRow[]) => rows.map((row) => ({ ...row, title: `\`${row.option}\`: ${show(row.value)}` }));

describe.each(tables.filter(({ rows }) => rows.length > 0))('$operator', (table) => {
  const { operator, create, rows } = table;

  it.each(titled(rows))('refuses $title', (row) => {
    const { value, expected } = row;
    const option = reported(table, row.option);
    let thrown: unknown;
    try {
      say(table, row);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(FlowConfigError);
    expect(isFlowError(thrown, 'FLOW_CONFIG_INVALID')).toBe(true);
    // What stands under a name nobody knows may be a secret.
    const isHidden = expected.startsWith('absent (known options') && typeof value === 'string';
    expect(thrown).toMatchObject({ operator, option, expected, got: isHidden ? undefined : value });
    const got = isHidden ? 'a string' : show(value);
    expect((thrown as Error).message).toBe(`${operator}: expected \`${option}\` to be ${expected}, got ${got}`);
  });

  it.runIf(table.optionless === undefined).each([null, 5, 'fast'])('refuses %o in place of options', (options) => {
    expect(() => create(options as never)).toThrow(`${operator}: expected \`options\` to be an object`);
  });
});
