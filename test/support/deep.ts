/** For a test that takes long and whose matter `npm test` sees in a shorter one, too. */
export const isDeep = process.env['SLUICE_DEEP'] !== undefined;

/**
 * What `npm run test:deep` runs whole, and `npm test` a part of: sizes, seeds. The first of the two numbers is what a developer waits for.
 * `vitest.config.ts` finds the files that import this one.
 */
export function sized(short: number, whole: number): number {
  return isDeep ? whole : short;
}

/** So many calls one inside the other would need ten stacks; in `npm test` still two. */
export const MORE_THAN_A_STACK = sized(20_000, 100_000);
