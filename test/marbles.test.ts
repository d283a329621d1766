import { describe, expect, it } from 'vitest';
import { renderSvg } from '../marbles/render-svg.js';
import { renderPage } from '../marbles/render-text.js';
import { runSpec } from '../marbles/run.js';
import { assertEqual, drawingOf, marbleFiles } from './support/marble-files.js';

const files = await marbleFiles();

describe.each(files.filter(({ failure }) => failure !== undefined))('$source', ({ failure }) => {
  it('can be read', () => {
    throw failure;
  });
});

describe.each(files.filter(({ failure }) => failure === undefined))('$operator', ({ operator, source, specs }) => {
  it('has titles that are its own and one cover', () => {
    expect(specs.every((spec) => spec.operator === operator)).toBe(true);
    expect(new Set(specs.map(({ title }) => title)).size).toBe(specs.length);
    expect(specs.filter(({ cover }) => cover)).toHaveLength(1);
  });

  it.each(specs)('$title', (spec) => {
    const { result } = runSpec(spec, assertEqual);
    expect(result.name).toBe('result');
  });

  it('looks as drawn', async () => {
    const drawings = specs.map((spec) => ({ title: spec.title, text: drawingOf(spec) }));
    await expect(renderPage(source, drawings)).toMatchFileSnapshot(`../marbles/diagrams/${operator}.txt`);
  });

  it('looks as its picture shows', async () => {
    for (const spec of specs.filter(({ cover }) => cover)) {
      await expect(renderSvg(spec, runSpec(spec, assertEqual))).toMatchFileSnapshot(`../marbles/diagrams/${operator}.svg`);
    }
  });
});
