import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { FlowConfigError, isFlowError, show } from '../operators/support/errors.js';
import type { MisuseRow, MisuseTable } from './support/misuse.js';

const names = readdirSync(new URL('./misuse/', import.meta.url)).flatMap((file) => /^(.+)\.rows\.ts$/.exec(file)?.[1] ?? []);
const tables = await Promise.all(
  names.sort().map(async (name) => ((await import(`./misuse/${name}.rows.ts`)) as { rows: MisuseTable }).rows),
);

const titled = (rows: readonly MisuseRow[]) => rows.map((row) => ({ ...row, title: `\`${row.option}\`: ${show(row.value)}` }));

describe.each(tables)('$operator', ({ operator, create, rows }) => {
  it.each(titled(rows))('refuses $title', ({ option, value, expected, besides }) => {
    let thrown: unknown;
    try {
      create({ ...besides, [option]: value } as never);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(FlowConfigError);
    expect(isFlowError(thrown, 'FLOW_CONFIG_INVALID')).toBe(true);
    expect(thrown).toMatchObject({ operator, option, expected, got: value });
    expect((thrown as Error).message).toBe(`${operator}: expected \`${option}\` to be ${expected}, got ${show(value)}`);
  });

  it.each([null, 5, 'fast'])('refuses %o in place of options', (options) => {
    expect(() => create(options as never)).toThrow(`${operator}: expected \`options\` to be an object`);
  });
});
