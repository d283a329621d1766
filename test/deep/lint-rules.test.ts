import { ESLint } from 'eslint';
import { expect, it } from 'vitest';

const code = `import { Backlog } from './line.js';
export function act(list: number[], maybe: number[] | undefined, backlog: Backlog<number>): void {
  list.shift();
  list.unshift(1);
  list.splice(0, 1);
  maybe?.shift();
  list.splice(0);
  list.pop();
  backlog.shift();
}
`;

it('operators keep no queue in an array: `shift` and its like are for backlogs', async () => {
  const [result] = await new ESLint().lintText(code, { filePath: 'operators/kernel/queues/bag.ts' });
  expect(result?.messages.map(({ line, ruleId }) => [line, ruleId])).toEqual([3, 4, 5, 6].map((line) => [line, 'sluice/no-array-shift']));
}, 120_000);
