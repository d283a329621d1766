/** Rows and answers go into prompts and files as JSON, which is written by recursion: what is deeper would end the run. */
export const MOST_NESTED = 500;

/** Whether lists and mappings go deeper than {@link MOST_NESTED}. Without recursion. */
export function isTooDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MOST_NESTED) return true;
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? (Object.values(one) as unknown[]) : []));
  }
  return false;
}
