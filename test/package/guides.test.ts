import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import * as exported from '../../operators/index.js';
import { fileOf, operators } from './files.js';

const project = resolve(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(project, path), 'utf8');

const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(join(project, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
].sort();

/** A page without its blocks of code. */
const text = (page: string): string => page.replaceAll(/^```[\s\S]*?^```$/gm, '');

/** The same without code that looks like a link. */
const prose = (page: string): string => text(page).replaceAll(/`[^`\n]*\]\([^`\n]*`/g, '');

/** The part of a link behind `#`, made of a heading as code hosts make it. */
const anchors = (page: string): string[] =>
  [...prose(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );

/** Links within the project that lead nowhere. */
function brokenLinks(path: string): string[] {
  return [...prose(read(path)).matchAll(/\]\((?!https?:)([^)\s]*)\)/g)].flatMap(([, link = '']) => {
    const [file = '', anchor] = link.split('#');
    const target = file === '' ? path : join(dirname(path), file);
    if (!existsSync(join(project, target))) return [link];
    const isPage = target.endsWith('.md') && statSync(join(project, target)).isFile();
    return anchor === undefined || (isPage && anchors(read(target)).includes(anchor)) ? [] : [link];
  });
}

describe('the guide to choosing', () => {
  const guide = read('docs/guides/choosing.md');
  const functions = Object.keys(exported).filter((name) => operators.includes(fileOf(name)));

  it('names every operator, and leads to its page', () => {
    expect(functions.length).toBeGreaterThan(15);
    expect(functions.filter((name) => !guide.includes(`[\`${name}\`](../operators/${fileOf(name)}.md)`))).toEqual([]);
  });
});

describe('the page of errors', () => {
  it('names every class of error', () => {
    const page = read('docs/errors.md');
    const classes = Object.keys(exported).filter((name) => /^[A-Z].+Error$/.test(name) && name !== 'FlowError');
    expect(classes.length).toBeGreaterThan(10);
    expect(classes.filter((name) => !page.includes(`| \`${name}\` |`))).toEqual([]);
  });
});

describe('the index of the documentation', () => {
  it('leads to every page that is not one of an operator, with the list of pages for contributors', () => {
    const [index, contributing] = [read('docs/README.md'), read('CONTRIBUTING.md')];
    const others = pages.filter((path) => /^docs\/(guides\/)?[^/]+\.md$/.test(path) && !['docs/README.md', 'docs/index.md'].includes(path));
    const isListed = (path: string): boolean => index.includes(`](${path.slice('docs/'.length)})`) || contributing.includes(`](${path})`);
    expect(others.filter((path) => !isListed(path))).toEqual([]);
  });
});

describe.each(pages)('%s', (path) => {
  it('has no link that leads nowhere', () => {
    expect(brokenLinks(path)).toEqual([]);
  });

  it('names files and folders that there are', () => {
    const named = [...text(read(path)).matchAll(/`((?:operators|src|marbles|test|examples|docs|bench)\/[\w./-]*)`/g)];
    expect(named.map(([, file = '']) => file).filter((file) => !existsSync(join(project, file)))).toEqual([]);
  });
});
