import type * as z from 'zod';

/** What untrusted input turned out to be. `problem` names the place and what was expected there, never the input itself. */
export type Checked<T> = { readonly value: T } | { readonly problem: string };

/**
 * Reads JSON text and holds it against a schema. Never throws: what is wrong comes back as `problem`.
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
