import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import * as build from '../../operators/build.js';
import { docComments, fences } from '../support/doctest.js';
import { sourcesOf } from './sources.js';

const project = resolve(import.meta.dirname, '../..');
const page = readFileSync(join(project, 'docs/guides/own-pipeline.md'), 'utf8');

const { check, ...blocks } = build;
const names = Object.keys(blocks);

/** The file and doc comment of each value, by the line of `operators/build.ts` that exports it. */
function commentOf(name: string): string {
  const file = new RegExp(`^export \\{ ${name} \\} from '\\./(.+)\\.js';$`, 'm').exec(
    readFileSync(join(project, 'operators/build.ts'), 'utf8'),
  )?.[1];
  const source = readFileSync(join(project, `operators/${String(file)}.ts`), 'utf8');
  const declared = source.search(new RegExp(`^export (?:function|(?:abstract )?class) ${name}\\b`, 'm'));
  return docComments(source).findLast(({ end }) => end < declared)?.text ?? '';
}

describe('sluice/operators/build', () => {
  it('has at most 15 values, and one object of checks', () => {
    expect(names.length).toBeLessThanOrEqual(15);
    expect(names.filter((name) => typeof build[name as keyof typeof build] !== 'function')).toEqual([]);
    expect(typeof check).toBe('object');
  });

  it.each(names)('documents %s, with a stability and an example that runs', (name) => {
    const comment = commentOf(name);
    expect(comment).toMatch(/^@beta$/m);
    expect(fences(comment, 'ts').map(({ code }) => code.includes(name))).toContain(true);
  });

  it('documents check and each of its members', () => {
    const { text } = sourcesOf('operators').find(({ path }) => path === 'operators/build.ts')!.file;
    const body = text.slice(text.indexOf('export const check = {'), text.indexOf('\n};'));
    const documented = [...body.matchAll(/^ {2}\/\*\* .+ \*\/\n {2}(\w+)/gm)].map(([, name]) => name);
    expect(documented).toEqual(Object.keys(check));
  });

  it('is listed on the page for authors, with each member of check', () => {
    expect(names.filter((name) => !page.includes(`| \`${name}\``))).toEqual([]);
    expect(Object.keys(check).filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });
});
