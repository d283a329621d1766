import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { traceAll } from '../../bench/trace-calls.js';

const page = readFileSync(join(resolve(import.meta.dirname, '../..'), 'docs/architecture.md'), 'utf8');
const traces = await traceAll();

/** Files of `operators/` that a section names, in the order in which it names them first. */
function filesOf(heading: string): string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  return [...new Set([...section.matchAll(/`(operators\/[\w/-]+\.ts)`/g)].map(([, file = '']) => file))];
}

describe('docs/architecture.md', () => {
  it.each(traces)('names the files of "$title", in their order', ({ title, files }) => {
    expect(filesOf(title)).toEqual(files);
  });

  it.each(traces)('"$title" is as short as was promised', ({ calls, files, mostCalls, mostFiles }) => {
    expect(calls.length).toBeLessThanOrEqual(mostCalls);
    expect(files.length).toBeLessThanOrEqual(mostFiles);
  });
});
