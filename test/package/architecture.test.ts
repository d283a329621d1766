import { readdirSync, readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { traceAll, traceRow } from '../../bench/trace-calls.js';

const project = resolve(import.meta.dirname, '../..');
const page = readFileSync(join(project, 'docs/architecture.md'), 'utf8');
const traces = await traceAll();
const row = await traceRow();

/** Files of `operators/` that a section names, in the order in which it names them first. */
function filesOf(heading: string): string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  return [...new Set([...section.matchAll(/`(operators\/[\w/-]+\.ts)`/g)].map(([, file = '']) => file))];
}

describe('docs/architecture.md', () => {
  it.each(traces.filter(({ isTold }) => isTold))('names the files of "$title", in their order', ({ title, files }) => {
    expect(filesOf(title)).toEqual(files);
  });

  it.each([...traces, row])('"$title" is as short as was promised', ({ calls, files, mostCalls, mostFiles }) => {
    expect(calls.length).toBeLessThanOrEqual(mostCalls);
    expect(files.length).toBeLessThanOrEqual(mostFiles);
  });
});

describe('the questions that come first', () => {
  const sources = readdirSync(join(project, 'operators'), { recursive: true, encoding: 'utf8' })
    .map((name) => `operators/${name}`)
    .concat('src/pipelines/defaults.ts')
    .filter((name) => name.endsWith('.ts'));
  const [, table = ''] = page.split('| question | decided in |');
  const rows = table.split('\n\n')[0]?.split('\n').slice(2) ?? [];

  it('are ten', () => {
    expect(rows).toHaveLength(10);
  });

  it.each(rows.map((text) => text.split(' | ') as [string, string]))(
    '%s is answered in the files that the row names',
    (_question, answer) => {
      const code = [...answer.matchAll(/`([^`]+)`/g)].map(([, one = '']) => one);
      const files = code
        .filter((one) => one.endsWith('.ts'))
        .map((path) => sources.find((name) => name === path || basename(name) === path));
      expect(files).not.toContain(undefined);
      const text = files.map((file) => readFileSync(join(project, file ?? ''), 'utf8')).join('\n');
      for (const name of code.filter((one) => !one.endsWith('.ts') && !one.includes('(')))
        for (const part of name.split('.')) expect(text).toMatch(new RegExp(`\\b${part}\\b`));
    },
  );
});
