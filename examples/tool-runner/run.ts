// One turn of a pretended model with a workspace in memory: a read, a secret that is refused, and a batch.
// Run: npx tsx examples/tool-runner/run.ts
import type { ModelBlock, Workspace } from './workspace.js';
import { answerTo, workspaceRunner } from './workspace.js';

const files = new Map([
  ['a.md', 'otters hold hands'],
  ['b.md', 'rivers are long'],
  ['.env', 'SECRET'],
]);
const workspace: Workspace = {
  read: (path) => Promise.resolve(files.get(path) ?? Promise.reject(new Error(`there is no ${path}`))),
  list: () => Promise.resolve([...files.keys()].filter((path) => !path.startsWith('.'))),
  write: (path, text) => {
    files.set(path, text);
    return Promise.resolve();
  },
};
const tool_calls = [
  { tool: 'search', parameters: { text: 'rivers' } },
  { tool: 'write', parameters: { path: 'c.md', text: 'new' } },
];
const turn: ModelBlock[] = [
  { type: 'tool_use', id: 'toolu_1', name: 'read', input: { path: 'a.md' } },
  { type: 'tool_use', id: 'toolu_2', name: 'read', input: { path: '.env' } },
  { type: 'tool_use', id: 'toolu_3', name: 'batch', input: { tool_calls } },
];
await using runner = workspaceRunner(workspace, (path) => path === 'c.md');
const { messages, summary } = await answerTo(runner, turn);
for (const { tool_use_id, content } of messages.flatMap(({ content }) => content)) console.log(`${tool_use_id}: ${content}`);
console.log(`${summary.successful} of ${summary.total} successful`);
