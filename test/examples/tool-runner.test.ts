import { describe, expect, it } from 'vitest';
import type { ModelBlock, Workspace } from '../../examples/tool-runner/workspace.js';
import { answerTo, workspaceRunner } from '../../examples/tool-runner/workspace.js';

const files = (): Map<string, string> =>
  new Map([
    ['a.md', 'otters hold hands'],
    ['b.md', 'rivers are long'],
    ['.env', 'SECRET'],
  ]);

function workspace(disk: Map<string, string>): Workspace {
  return {
    read: (path) => {
      const text = disk.get(path);
      return text === undefined ? Promise.reject(new Error(`there is no ${path}`)) : Promise.resolve(text);
    },
    list: () => Promise.resolve([...disk.keys()].filter((path) => !path.startsWith('.'))),
    write: (path, text) => {
      disk.set(path, text);
      return Promise.resolve();
    },
  };
}

const uses = (...calls: readonly (readonly [name: string, input: unknown])[]): ModelBlock[] => [
  { type: 'text', text: 'Let me look.' },
  ...calls.map(([name, input], i): ModelBlock => ({ type: 'tool_use', id: `toolu_${String(i)}`, name, input })),
];

const blocksOf = ({ length, 0: message }: Awaited<ReturnType<typeof answerTo>>['messages']) => {
  expect(length).toBe(1);
  return message?.content ?? [];
};

describe('the workspace of an agent', () => {
  it('answers every call of a turn, by its id, failures included', async () => {
    const runner = workspaceRunner(workspace(files()), () => false);
    const asked = uses(['read', { path: 'a.md' }], ['search', { text: 'rivers' }], ['read', { path: 'c.md' }], ['read', { path: '.env' }]);
    const { messages, summary } = await answerTo(runner, asked);
    expect(blocksOf(messages).map(({ tool_use_id, is_error }) => [tool_use_id, is_error])).toEqual([
      ['toolu_0', false],
      ['toolu_1', false],
      ['toolu_2', true],
      ['toolu_3', true],
    ]);
    expect(
      blocksOf(messages)
        .map(({ content }) => content)
        .slice(0, 2),
    ).toEqual(['otters hold hands', '["b.md"]']);
    expect(blocksOf(messages)[2]?.content).toContain('there is no c.md');
    expect(blocksOf(messages)[3]?.content).toContain('files that begin with a dot are private');
    expect(JSON.stringify(messages)).not.toContain('SECRET');
    expect(summary).toMatchObject({ total: 4, successful: 2, failed: 2 });
  });

  it('writes what may be written at that moment, also from within a batch', async () => {
    const disk = files();
    let left = 1;
    const runner = workspaceRunner(workspace(disk), () => left-- > 0);
    const write = (path: string) => ({ tool: 'write', parameters: { path, text: 'new' } });
    const { messages } = await answerTo(
      runner,
      uses(['batch', { tool_calls: [write('x.md'), write('y.md'), { tool: 'read', parameters: { path: 'a.md' } }] }]),
    );
    expect([disk.get('x.md'), disk.get('y.md')]).toEqual(['new', undefined]);
    expect(blocksOf(messages)[0]?.content).toContain('[1] write (toolu_0.1): ok\nwrote 3 characters');
    expect(blocksOf(messages)[0]?.content).toContain('permission denied: the user has not allowed writing y.md');
    expect(blocksOf(messages)[0]?.content).toContain('[3] read (toolu_0.3): ok\notters hold hands');
  });

  it('stops with the session, and still has an answer for every call', async () => {
    const stop = new AbortController();
    let started = 0;
    const stuck: Workspace = {
      ...workspace(files()),
      read: () => {
        started++;
        return new Promise(() => undefined);
      },
    };
    const runner = workspaceRunner(stuck, () => true, { concurrency: 2 });
    const turn = answerTo(runner, uses(...['a.md', 'b.md', 'c.md'].map((path) => ['read', { path }] as const)), stop.signal);
    stop.abort();
    const { messages } = await turn;
    expect(started).toBe(2);
    expect(blocksOf(messages).map(({ content }) => (JSON.parse(content) as { error: { code: string } }).error.code)).toEqual([
      'cancelled',
      'cancelled',
      'cancelled',
    ]);
  });
});
