/** For a test that takes long and whose matter `npm test` sees in a shorter one, too. */
export const isDeep = process.env['SLUICE_DEEP'] !== undefined;

/**
 * What `npm run test:deep` runs whole, and `npm test` a part of: sizes, seeds. The first of the two numbers is what a developer waits for.
 * `vitest.config.ts` finds the files that import this one.
 */
export function sized(short: number, whole: number): number {
  return isDeep ? whole : short;
}

/** How often a property of a kernel is drawn: all times too where mutants of it are looked for, which is what the draws are there to find. */
export function draws(short: number, whole: number): number {
  return process.env['SLUICE_MUTATION'] === undefined ? sized(short, whole) : whole;
}

/** So many calls one inside the other would need ten stacks; in `npm test` still two. */
export const MORE_THAN_A_STACK = sized(20_000, 100_000);
