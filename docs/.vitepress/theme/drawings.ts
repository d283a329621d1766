import type { MarbleSpec } from '../../../marbles/spec.js';

const files = import.meta.glob<{ specs: readonly MarbleSpec[] }>('../../../marbles/specs/*.marbles.ts');

/** The example on the page of an operator, loaded when a reader comes to it. */
export async function coverOf(page: string): Promise<MarbleSpec | undefined> {
  const file = await files[`../../../marbles/specs/${page}.marbles.ts`]?.();
  return file?.specs.find(({ cover }) => cover);
}
