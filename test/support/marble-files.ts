import { readdirSync } from 'node:fs';
import { expect } from 'vitest';
import { renderText } from '../../marbles/render-text.js';
import { runSpec } from '../../marbles/run.js';
import type { MarbleSpec } from '../../marbles/spec.js';

export interface MarbleFile {
  /** Name of the operator, as exported. */
  readonly operator: string;
  /** Path of the file, from the root of the project. */
  readonly source: string;
  readonly specs: readonly MarbleSpec[];
  /** Why the file could not be read; its own tests report it, those of the other files run. */
  readonly failure?: unknown;
}

/** Every file of `marbles/specs`. */
export async function marbleFiles(): Promise<MarbleFile[]> {
  const names = readdirSync(new URL('../../marbles/specs/', import.meta.url)).flatMap(
    (file) => /^(.+)\.marbles\.ts$/.exec(file)?.[1] ?? [],
  );
  return Promise.all(
    names.sort().map(async (name) => {
      const file = { operator: camelCase(name), source: `marbles/specs/${name}.marbles.ts` };
      try {
        const { specs } = (await import(`../../marbles/specs/${name}.marbles.ts`)) as { specs: readonly MarbleSpec[] };
        return { ...file, specs };
      } catch (failure) {
        return { ...file, specs: [], failure };
      }
    }),
  );
}

/** The drawing of a spec, from a run that is checked. */
export function drawingOf(spec: MarbleSpec): string {
  return renderText(spec, runSpec(spec, assertEqual));
}

export function assertEqual(actual: unknown, expected: unknown): void {
  expect(actual).toEqual(expected);
}

/** `create-limiter` is the file of `createLimiter`. */
export function camelCase(kebab: string): string {
  return kebab.replace(/-(\w)/g, (_match, letter: string) => letter.toUpperCase());
}
