import { expect, it } from 'vitest';
import { configMistakes } from './support/config-mistakes.js';
import type { MisuseRow, MisuseTable } from './support/misuse.js';
import { messageOf, misuseTables, operatorOf } from './support/misuse.js';

const HEAD = `<!-- Generated from the tables of test/misuse; do not edit. \`npx vitest run test/misuse-messages.test.ts -u\` writes it. -->

# What is said about mistakes in options

Each message once, with one example of where it is said.
`;

/** The same for all messages that differ in names and values only. */
function kindOf({ problem, expected }: MisuseRow): string {
  const sentence = problem === undefined ? `expected … ${expected}` : `${problem}. ${expected}`;
  return sentence.replace(/Known options: .*/, 'Known options: …').replace(/Did you mean `.*`\?/, 'Did you mean `…`?');
}

function page(tables: readonly MisuseTable[]): string {
  const examples = new Map<string, string>();
  for (const table of tables) {
    for (const row of table.rows) {
      const kind = kindOf(row);
      if (!examples.has(kind)) examples.set(kind, `- ${operatorOf(table, row.option)}: ${messageOf(table, row)}`);
    }
  }
  const lines = [...examples.values()].sort();
  const ofFiles = new Set(configMistakes.flatMap(({ messages }) => messages));
  return [HEAD, ...lines, '', '## In a configuration file', '', ...Array.from(ofFiles, (message) => `- ${message}`), ''].join('\n');
}

it('is all that is said about mistakes in options, for reading', async () => {
  await expect(page(await misuseTables())).toMatchFileSnapshot('misuse/messages.md');
});
