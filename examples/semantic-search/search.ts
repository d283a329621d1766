import type { IndexedPassage } from './index-file.js';

export interface Hit {
  readonly passage: IndexedPassage;
  /** Cosine of the angle between question and passage: 1 is the same direction, 0 is unrelated. */
  readonly score: number;
}

/** The `top` passages closest to the question, best first. */
export function search(passages: readonly IndexedPassage[], question: Float32Array, top: number): Hit[] {
  return passages
    .map((passage) => ({ passage, score: cosine(question, passage.vector) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, top);
}

function cosine(a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) throw new Error(`expected vectors of ${a.length} numbers, found ${b.length}: index the documents again`);
  return dot(a, b) / (Math.sqrt(dot(a, a) * dot(b, b)) || 1);
}

function dot(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);
}
