import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { bundle, OPERATORS } from '../world/bundle.js';
import { BUGS, NOT_YET } from './bugs.js';
import type { Operators } from './operators.js';
import { CASES } from './operators.js';
import { problemsOf } from './spec.js';

/** The operators with a bug in them. */
async function operatorsWith(planted: (typeof BUGS)[number]): Promise<Operators> {
  const text = await bundle(join(OPERATORS, 'index.ts'), { ...planted, of: '', bug: () => undefined });
  const module = { exports: {} };
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- what esbuild made of our own text
  const run = new Function('module', 'exports', 'require', text) as (...given: unknown[]) => void;
  run(module, module.exports, createRequire(import.meta.url));
  return module.exports as Operators;
}

describe('a bug in the kernel of waiting', () => {
  it.each(BUGS)('is found in every operator that lets items wait: $name', { timeout: 120_000 }, async (planted) => {
    const operators = await operatorsWith(planted);
    const found: string[] = [];
    for (const [name, each] of Object.entries(CASES)) if ((await problemsOf(operators, each)).length > 0) found.push(name);
    expect(found.sort()).toEqual(planted.foundBy.filter((name) => !NOT_YET.includes(name)).sort());
  });

  it('is looked for in every case', () => {
    expect(Object.keys(CASES).filter((name) => !BUGS.some(({ foundBy }) => foundBy.includes(name)))).toEqual([]);
  });
});
