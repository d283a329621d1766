import { z } from './zod.js';

const text = /* @__PURE__ */ (() => z.string().min(1))();
const bytes = /* @__PURE__ */ (() => z.int().min(0))();

/** One line of the journal of `sluice run`, without its checksum. */
export const runLineSchema = /* @__PURE__ */ (() =>
  z.union([
    // What a stage has answered, and what that is an answer to.
    z.strictObject({ document: text, stage: text, item: z.string(), value: z.unknown(), key: text.optional() }),
    // A document is over, and the files were that long then.
    z.strictObject({ done: text, status: z.enum(['ok', 'partial', 'failed']), output: bytes, failures: bytes }),
    // A run has begun. `work` stands for all that its stages ask, and the key of each for what its answers depend on.
    z.strictObject({
      format: z.literal('sluice-run'),
      version: z.literal(1),
      work: text,
      stages: z.array(z.strictObject({ name: text, key: text, asks: z.boolean() })).optional(),
      retryFailed: z.boolean(),
    }),
  ]))();

export type RunLine = z.infer<typeof runLineSchema>;
