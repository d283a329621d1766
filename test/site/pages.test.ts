import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { llmsTxt } from '../../docs/.vitepress/llms.mjs';
import { inside, learn, recipes, reference } from '../../docs/.vitepress/pages.mjs';

const DOCS = new URL('../../docs/', import.meta.url);
/** Pages as files of `docs/`, without those that the site does not show, or shows at an address of their own. */
const files = readdirSync(DOCS, { recursive: true, encoding: 'utf8' })
  .filter(
    (name) =>
      name.endsWith('.md') &&
      !/^(\.vitepress|api|skills)\//.test(name) &&
      name !== 'index.md' &&
      !/^decisions\/\d/.test(name) &&
      name !== 'decisions/tried.md',
  )
  .map((name) =>
    name
      .replace(/^README\.md$/, 'contents.md')
      .replace(/README\.md$/, 'index.md')
      .replace(/\.md$/, ''),
  )
  .sort();

describe('the site', () => {
  it('has each page of docs/ in one list, once', () => {
    const listed = [...learn, ...recipes, ...reference, ...inside].flatMap(({ items }) => items.map(({ link }) => link.slice(1)));
    expect(listed.sort()).toEqual(files);
  });
});

describe('llmsTxt', () => {
  it('describes a page by its first sentence of prose, without links and code blocks', () => {
    const text = '# batch\n\n```ts doctest\nimport\n```\n\nTake [`batch`](x.md) when batches form alone: by count. More.\n';
    expect(llmsTxt(new Map([['operators/batch.md', text]])).index).toContain(
      '- [batch](operators/batch.md): Take `batch` when batches form alone\n',
    );
  });

  it('has no description where a page has no prose', () => {
    expect(llmsTxt(new Map([['operators/batch.md', '# batch\n']])).index).toContain('- [batch](operators/batch.md)\n');
  });
});
