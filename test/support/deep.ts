/**
 * What `npm run test:deep` runs whole, and `npm test` a part of: sizes, seeds. The files that ask are named in `vitest.config.ts`; the
 * first of the two numbers is what a developer waits for.
 */
export function sized(short: number, whole: number): number {
  return process.env['SLUICE_DEEP'] === undefined ? short : whole;
}
