import * as z from 'zod';

const sha256 = /* @__PURE__ */ (() => z.string().regex(/^[0-9a-f]{64}$/, 'a SHA-256 as 64 hex digits'))();
const position = /* @__PURE__ */ (() => z.int().min(1))();
const amount = /* @__PURE__ */ (() => z.int().min(0))();

/** First line of an index file. */
export const indexHeaderSchema = /* @__PURE__ */ (() =>
  z.strictObject({
    format: z.literal('sluice-index'),
    version: z.literal(1),
    model: z.string().min(1),
    dimensions: amount,
    documents: amount,
    chunks: amount,
  }))();

/** One passage with its vector: little-endian 32-bit floats as base64. */
export const indexChunkSchema = /* @__PURE__ */ (() =>
  z.strictObject({
    file: z.string().min(1),
    startLine: position,
    endLine: position,
    sha256,
    text: z.string().min(1),
    vector: z.base64(),
  }))();

/** Last line of an index file: what came before it. */
export const indexFooterSchema = /* @__PURE__ */ (() => z.strictObject({ count: amount, sha256 }))();

/** One line of a journal, without its checksum. */
export const journalLineSchema = /* @__PURE__ */ (() => z.strictObject({ model: z.string().min(1), sha256, vector: z.base64() }))();

export type IndexHeader = z.infer<typeof indexHeaderSchema>;
export type IndexChunk = z.infer<typeof indexChunkSchema>;
export type IndexFooter = z.infer<typeof indexFooterSchema>;
export type JournalLine = z.infer<typeof journalLineSchema>;
