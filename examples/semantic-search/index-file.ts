import { appendFileSync } from 'node:fs';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import * as z from 'zod';
import { checkJson } from '../../src/edge/check.js';
import type { Passage } from './passages.js';

export interface IndexedPassage extends Passage {
  readonly vector: Float32Array;
}

export interface Index {
  readonly model: string;
  readonly passages: readonly IndexedPassage[];
}

/** By SHA-256 of their text. */
export type Vectors = Map<string, Float32Array>;

const FLOAT_BYTES = Float32Array.BYTES_PER_ELEMENT;

/** 32-bit floats as base64. */
const vectorSchema = z
  .base64()
  .refine((text) => Buffer.from(text, 'base64').length % FLOAT_BYTES === 0, 'a vector')
  .transform((text) => new Float32Array(new Uint8Array(Buffer.from(text, 'base64')).buffer));
const sha256Schema = z.string().regex(/^[0-9a-f]{64}$/);

/** First line of an index. */
const headerSchema = z.strictObject({ format: z.literal('semantic-search'), model: z.string(), passages: z.int() });
/** All other lines. */
const passageSchema = z.strictObject({
  file: z.string(),
  startLine: z.int(),
  endLine: z.int(),
  text: z.string(),
  sha256: sha256Schema,
  vector: vectorSchema,
});
/** A line of the journal. */
const entrySchema = z.strictObject({ model: z.string(), sha256: sha256Schema, vector: vectorSchema });

/** @throws Error when there is no index, or a line of it is damaged or missing. */
export async function readIndex(path: string): Promise<Index> {
  const [first = '', ...lines] = (await readFile(path, 'utf8')).trimEnd().split('\n');
  const header = checkJson(headerSchema, first);
  if ('problem' in header) throw new Error(`\`${path}\` is not an index (${header.problem})`);
  const { model, passages: count } = header.value;
  if (lines.length !== count) throw new Error(`\`${path}\` is damaged: expected ${count} passages, found ${lines.length}`);
  const passages = lines.map((line, i) => {
    const passage = checkJson(passageSchema, line);
    if ('problem' in passage) throw new Error(`\`${path}\` is damaged at line ${i + 2}: ${passage.problem}`);
    return passage.value;
  });
  return { model, passages };
}

/** Replaces the index in one step: a run that is killed leaves the old file or the new one. */
export async function writeIndex(path: string, { model, passages }: Index): Promise<void> {
  const lines = [
    { format: 'semantic-search', model, passages: passages.length },
    ...passages.map((passage) => ({ ...passage, vector: encode(passage.vector) })),
  ].map((line) => `${JSON.stringify(line)}\n`);
  await writeFile(`${path}.new`, lines, { flush: true });
  await rename(`${path}.new`, path);
  await rm(journalOf(path), { force: true });
}

/**
 * The vectors that an earlier run has paid for: those of the index, and those in the journal of a run that did not finish.
 *
 * @throws Error when the file at `path` is not an index: it is never overwritten.
 */
export async function readVectors(path: string, model: string): Promise<Vectors> {
  const index = await readIndex(path).catch(ignoreMissing);
  const vectors: Vectors = new Map();
  if (index?.model === model) for (const { sha256, vector } of index.passages) vectors.set(sha256, vector);
  const journal = (await readFile(journalOf(path), 'utf8').catch(ignoreMissing)) ?? '';
  for (const line of journal.split('\n')) {
    const entry = checkJson(entrySchema, line);
    // A killed process leaves half a line, whose passage is embedded again.
    if ('value' in entry && entry.value.model === model) vectors.set(entry.value.sha256, entry.value.vector);
  }
  return vectors;
}

/** Keeps a vector beside the index until the index is written. The line feed comes first, so that no entry joins a torn line before it. */
export function appendToJournal(path: string, model: string, sha256: string, vector: Float32Array): void {
  appendFileSync(journalOf(path), `\n${JSON.stringify({ model, sha256, vector: encode(vector) })}`);
}

function journalOf(path: string): string {
  return `${path}.journal`;
}

function encode(vector: Float32Array): string {
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64');
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
