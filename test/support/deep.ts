/** For a test that takes long and whose matter `npm test` sees in a shorter one, too. */
export const isDeep = process.env['SLUICE_DEEP'] !== undefined;

/**
 * What `npm run test:deep` runs whole, and `npm test` a part of: sizes, seeds. The files that ask are named in `vitest.config.ts`; the
 * first of the two numbers is what a developer waits for.
 */
export function sized(short: number, whole: number): number {
  return isDeep ? whole : short;
}
