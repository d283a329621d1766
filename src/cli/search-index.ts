import { compare } from './documents.js';
import type { IndexEntry } from './index-file.js';

export interface Hit {
  readonly entry: IndexEntry;
  /** Cosine of the angle between question and passage: 1 is the same direction, 0 nothing in common. */
  readonly score: number;
}

/** The `top` passages closest to the question, best first; equal scores in the order of file and line. */
export function searchIndex(entries: readonly IndexEntry[], question: Float32Array, top: number): Hit[] {
  const length = norm(question);
  return entries
    .map((entry) => ({ entry, score: cosine(question, length, entry.vector) }))
    .sort((a, b) => b.score - a.score || compare(a.entry.file, b.entry.file) || a.entry.startLine - b.entry.startLine)
    .slice(0, top);
}

function cosine(question: Float32Array, length: number, vector: Float32Array): number {
  let dot = 0;
  for (let i = 0; i < vector.length; i += 1) dot += (vector[i] as number) * (question[i] as number);
  const scale = length * norm(vector);
  return scale === 0 ? 0 : dot / scale;
}

function norm(vector: Float32Array): number {
  let sum = 0;
  for (const value of vector) sum += value * value;
  return Math.sqrt(sum);
}
