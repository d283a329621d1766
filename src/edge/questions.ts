import * as z from 'zod';

/** A file of questions, each with the document that answers it. */
export const questionsSchema = /* @__PURE__ */ (() =>
  z
    .array(
      z.strictObject({
        question: z.string().trim().min(1),
        /** Name of the document as the index shows it. */
        expected: z.string().min(1),
      }),
    )
    .min(1))();

export type Questions = z.infer<typeof questionsSchema>;
