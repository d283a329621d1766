import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fences } from '../support/doctest.js';

const project = resolve(import.meta.dirname, '../..');
const folder = join(project, 'docs/adapters');

const pages = readdirSync(folder).filter((file) => file !== 'README.md');
const adapters = readdirSync(join(project, 'src/adapters'), { withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map(({ name }) => `sluice/${name.slice(0, -'.ts'.length)}`);

/** An entry whose file has another name, and the page it stands on. */
const SUBPATHS: Readonly<Record<string, string>> = {
  'sluice/langchain-agents': 'sluice/langchain/agents',
  'sluice/mcp-v1': 'sluice/mcp/v1',
};

/** The examples of a page; test/docs.test.ts runs them. */
const examplesOf = (page: string): string[] => fences(readFileSync(join(folder, page), 'utf8'), 'ts doctest').map(({ code }) => code);

describe('the page of an adapter', () => {
  it.each(pages)('%s begins with an example of at most 15 lines', (page) => {
    const [first = ''] = examplesOf(page);
    expect(first).toContain(`from 'sluice/${page.slice(0, -'.md'.length)}'`);
    expect(first.split('\n').filter((line) => line.trim() !== '').length).toBeLessThanOrEqual(15);
  });

  it('is there for every one, with an example that runs', () => {
    const examples = pages.flatMap(examplesOf).join('\n');
    const without = adapters.map((name) => SUBPATHS[name] ?? name).filter((name) => !examples.includes(`from '${name}'`));
    expect(without).toEqual([]);
  });

  it('is listed on the page of all adapters', () => {
    const list = readFileSync(join(folder, 'README.md'), 'utf8');
    expect(pages.filter((page) => !list.includes(`(${page}`))).toEqual([]);
  });
});
