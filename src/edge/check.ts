import * as z from 'zod';
import { needsPeer } from '../peer-version.js';

// What only version 4 has, and costs no bundle anything.
needsPeer('sluice/edge', 'zod', '^4.0.0', (z as { readonly $brand?: symbol }).$brand !== undefined);

/** What untrusted input turned out to be. `problem` names the place and what was expected there, never the input itself. */
export type Checked<T> = { readonly value: T } | { readonly problem: string };

/**
 * Reads JSON text and holds it against a schema. Never throws: what is wrong comes back as `problem`.
 *
 * @example
 * ```ts
 * import { checkJson } from 'sluice/edge';
 * import * as z from 'zod';
 *
 * const person = z.object({ name: z.string() });
 * checkJson(person, '{ "name": "Ada" }'); // => { value: { name: 'Ada' } }
 * checkJson(person, '{ "name": 7 }'); // => { problem: '`name`: Invalid input: expected string, received number' }
 * checkJson(person, 'Ada'); // => { problem: 'not JSON' }
 * ```
 */
export function checkJson<T>(schema: z.ZodType<T>, text: string): Checked<T> {
  let input: unknown;
  try {
    input = JSON.parse(text);
  } catch {
    return { problem: 'not JSON' };
  }
  const result = schema.safeParse(input);
  if (result.success) return { value: result.data };
  return { problem: result.error.issues.map(describe).join('; ') };
}

function describe(issue: z.core.$ZodIssue): string {
  const place = issue.path.map(String).join('.');
  return place === '' ? issue.message : `\`${place}\`: ${issue.message}`;
}
