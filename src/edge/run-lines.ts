import * as z from 'zod';
import { schema } from './zod.js';

const text = /* @__PURE__ */ schema(() => z.string().min(1));
const bytes = /* @__PURE__ */ schema(() => z.int().min(0));

/** One line of the journal of `sluice run`, without its checksum. */
export const runLineSchema = /* @__PURE__ */ schema(() =>
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
  ]),
);

export type RunLine = z.infer<typeof runLineSchema>;

/** One line of the cache of `sluice run`, without its checksum. */
export const cacheLineSchema = /* @__PURE__ */ schema(() =>
  z.union([
    // The answer to a request, by the SHA-256 of its body.
    z.strictObject({ request: z.string().length(64), answer: z.string() }),
    // What the file is.
    z.strictObject({ format: z.literal('sluice-cache'), version: z.literal(1) }),
  ]),
);
