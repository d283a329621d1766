import * as z from 'zod';
import { ANSWER_FAULTS } from '../../pipelines/finish-reason.js';
import { schema } from '../zod.js';
import { HTTP_URL, NAME, VARIABLE_NAME } from './patterns.js';

const text = () => z.string().min(1);
const whole = (least = 1) => z.int().min(least);
const positive = () => z.number().positive();
const amount = () => z.number().min(0);
const name = () => z.string().regex(NAME);

const laneSchema = /* @__PURE__ */ schema(() =>
  z.strictObject({
    name: name().describe('Name of the lane.'),
    reserve: z
      .number()
      .min(0)
      .lt(1)
      .optional()
      .describe(
        'Share of every rate that lanes below may not take; 0.05 by default for the first lane unless `burst` or `burstSeconds` is set, 0 for the others.',
      ),
  }),
);

/** What may be wrong with an answer that came. */
const accept = (more: string) =>
  z
    .array(z.enum(ANSWER_FAULTS))
    .optional()
    .describe(
      `Answers that are no failures: \`length\` for those cut off at their longest length, \`content_filter\` for those a filter of the provider cut off, \`refusal\` for those in which the model refuses, \`empty\` for those without a text. ${more}`,
    );

/** What the request level allows, as a file says it. */
export const limitsSchema = /* @__PURE__ */ schema(() =>
  z
    .strictObject({
      concurrency: whole().optional().describe('Requests at a time.'),
      requestsPerMinute: positive().optional().describe('Requests per minute. Not together with `requestsPerSecond`.'),
      requestsPerSecond: positive().optional().describe('Requests per second.'),
      burst: z
        .number()
        .min(1)
        .optional()
        .describe('Requests that may be saved up and sent at once; what comes in within `burstSeconds` by default.'),
      tokensPerMinute: positive().optional().describe('Tokens per minute, of what is sent and of what comes back.'),
      burstSeconds: z.number().min(0.001).max(86_400).optional().describe('Seconds of the rates that may be saved up; 2 by default.'),
      headroom: z.number().min(0.01).max(1).optional().describe('The part of the rates that is used; 0.9 by default.'),
      maxQueued: whole(0).optional().describe('Most calls that wait; one more is refused.'),
      lanes: z
        .array(z.union([name(), laneSchema]))
        .min(1)
        .optional()
        .describe('Lanes, the most urgent first, by name or with their reserve; `user`, `normal`, `background` by default.'),
    })
    .meta({
      description: 'The request level: what the account at the provider allows, for all stages together.',
      not: { required: ['requestsPerMinute', 'requestsPerSecond'] },
      dependentSchemas: { burst: { anyOf: [{ required: ['requestsPerMinute'] }, { required: ['requestsPerSecond'] }] } },
    }),
);

const retrySchema = /* @__PURE__ */ schema(() =>
  z
    .strictObject({
      maxAttempts: whole().optional().describe('Attempts, the first one included; 3 by default.'),
      delayMs: positive().optional().describe('The first pause, in ms; each one after it is twice as long. 200 by default.'),
      maxMs: positive().optional().describe('The longest pause, in ms; a `retry-after` may be longer.'),
      maxThrottledMs: positive()
        .optional()
        .describe('How long one call waits out refusals for its rate, in ms; up to `deadlineMs` by default, or 600000 without one.'),
      jitter: z
        .enum(['full', 'equal', 'none'])
        .optional()
        .describe('Whether pauses are drawn at random up to their length; `full` by default.'),
      maxShare: positive()
        .optional()
        .describe(
          'Most retries at a time as a part of the calls under way, always 3; what finds no room fails. No such limit by default: `limits` and `batches` are.',
        ),
    })
    .describe('How calls that fail for a while are tried again.'),
);

const modelSchema = /* @__PURE__ */ schema(() =>
  z
    .strictObject({
      baseUrl: z
        .string()
        .regex(HTTP_URL)
        .optional()
        .describe('The API, up to and with its version; the variable `SLUICE_BASE_URL` by default.'),
      model: text().optional().describe('Name of the model.'),
      apiKeyEnv: z
        .string()
        .regex(VARIABLE_NAME)
        .optional()
        .describe('The name of the variable that holds the key; `SLUICE_API_KEY`, then `OPENAI_API_KEY` by default.'),
      headers: z.record(z.string(), z.string()).optional().describe('Sent with every request.'),
      system: text().optional().describe('The system prompt of stages that have none of their own.'),
      temperature: z.number().min(0).max(2).optional().describe('0 to 2.'),
      maxTokens: whole().optional().describe('The longest answer, in tokens.'),
      options: z.record(z.string(), z.unknown()).optional().describe('Whatever else the provider takes: put into the body as it is.'),
      timeoutMs: positive()
        .optional()
        .describe('The longest time for one attempt, in ms; 120000 by default in `sluice run`, 30000 in a model caller.'),
      deadlineMs: positive().optional().describe('The longest time for a call with all its attempts, from asking to the answer, in ms.'),
      retry: z
        .union([z.literal(false), retrySchema])
        .optional()
        .describe('How calls that fail for a while are tried again, or `false`.'),
      accept: accept('None by default.'),
      cache: z
        .union([z.boolean(), z.strictObject({ path: text().describe('The file that keeps the answers; relative to the configuration.') })])
        .optional()
        .describe(
          'Whether equal requests are asked once, in this run and in later ones; `false` by default. `true` keeps the answers in `<output>.cache`.',
        ),
    })
    .describe('The model, where it is, and how one call is made.'),
);

/** `scheduling: priority` needs its field, and the field and what goes with it need `scheduling: priority`. */
function priorityRules(field: string, ...others: readonly string[]) {
  const keys = [field, ...others].map((key) => ({ required: [key] }));
  return {
    allOf: [
      // biome-ignore lint/suspicious/noThenProperty: a word of JSON Schema
      { if: { properties: { scheduling: { const: 'priority' } }, required: ['scheduling'] }, then: { required: [field] } },
      // biome-ignore lint/suspicious/noThenProperty: as above
      { if: { properties: { scheduling: { enum: ['fair', 'roundRobin', 'round_robin'] } } }, then: { not: { anyOf: keys } } },
    ],
  };
}

const batchesSchema = /* @__PURE__ */ schema(() =>
  z
    .strictObject({
      concurrency: whole().optional().describe('Documents in progress at a time.'),
      scheduling: z
        .enum(['fair', 'priority', 'roundRobin'])
        .optional()
        .describe('Which document goes first when several wait; `fair` by default.'),
      priority: text()
        .optional()
        .describe('With `scheduling: priority`: the field of a document that says how urgent it is; a higher number goes first.'),
      maxQueued: whole().optional().describe('With `scheduling: priority`: documents read ahead to choose from; 100 by default.'),
    })
    .meta({ description: 'The batch level: documents.', ...priorityRules('priority', 'maxQueued') }),
);

const expectationSchema = {
  secondsPerCall: amount().optional().describe('How long one call takes.'),
  inputTokens: amount().optional().describe('Tokens that one call sends.'),
  outputTokens: amount().optional().describe('Tokens that one call answers.'),
};

const stageSchema = /* @__PURE__ */ schema(() =>
  z
    .strictObject({
      name: name().describe('Its name, by which later prompts name its answer.'),
      prompt: text()
        .optional()
        .describe('What the model is asked: `{{field}}` of the document, `{{stage}}` for the answer of an earlier stage.'),
      chunk: z
        .strictObject({
          field: text().describe('The field that holds the text.'),
          maxTokens: whole()
            .optional()
            .describe('Most estimated tokens in a part; 200 by default, without such a limit where there is a `separator`.'),
          separator: text()
            .optional()
            .describe('A text at which the field is split first, such as `"\\n---\\n"`. Parts longer than `maxTokens` are cut then.'),
          overlapTokens: whole()
            .optional()
            .describe('Most estimated tokens of the end of a part that the next one repeats, where `maxTokens` has cut; none by default.'),
        })
        .meta({
          description: 'In place of a prompt: cuts a text into parts, each an item of the next stage.',
          dependentRequired: { overlapTokens: ['maxTokens'] },
        })
        .optional(),
      answer: z
        .enum(['text', 'json', 'list'])
        .optional()
        .describe('What the answer is: a text (the default), JSON, or a JSON list, of which each element is an item of the next stage.'),
      listLength: whole()
        .optional()
        .describe(
          'With `answer: list`: how many elements the list is to have. `{{listLength}}` in the prompt is this number, the stages behind it expect so many items, and `sluice run` notes lists of another length.',
        ),
      accept: accept('That of `model` by default.'),
      fixAnswer: z
        .strictObject({ rounds: whole().describe('How often the model is asked again, at most.') })
        .optional()
        .describe(
          'With `answer: json` or `answer: list`: when an answer is not that, the model is asked again in the same conversation, which says what is wrong. Each time is a call of its own.',
        ),
      gleaning: z
        .strictObject({
          prompt: text().describe('The next message, which asks for what is missing; placeholders as in `prompt` of the stage.'),
          rounds: whole().optional().describe('How often it is sent, at most; 1 by default.'),
          continue: text()
            .optional()
            .describe('A question between two rounds: the next round is made only when the answer begins with yes. Always by default.'),
        })
        .meta({
          description:
            'Asks on in the same conversation. The texts are joined line by line, the lists are put together, and answers that are JSON become a list of them.',
          dependentSchemas: { continue: { required: ['rounds'], properties: { rounds: { not: { const: 1 } } } } },
        })
        .optional(),
      cache: z.boolean().optional().describe('Whether equal requests of this stage are asked once; as `cache` of `model` says by default.'),
      system: text().optional().describe('The system prompt.'),
      model: text().optional().describe('Another model for this stage.'),
      temperature: z.number().min(0).max(2).optional().describe('0 to 2.'),
      maxTokens: whole().optional().describe('The longest answer, in tokens.'),
      concurrency: whole().optional().describe('Calls of this stage at a time.'),
      scope: z
        .enum(['shared', 'perBatch'])
        .optional()
        .describe('Whether all documents share `concurrency` (the default), or each has as much.'),
      timeoutMs: positive().optional().describe('The longest attempt of a call of this stage, in ms; `timeoutMs` of `model` by default.'),
      deadlineMs: positive()
        .optional()
        .describe('The longest time of an item in this stage, in ms, waiting included; `deadlineMs` of `model` by default.'),
      allowPartialFailure: z
        .boolean()
        .optional()
        .describe('Whether the other items of a document go on when one fails; `false` by default.'),
      expect: z
        .strictObject({
          itemsPerDocument: amount().optional().describe('Items that this stage has in each document, on average.'),
          callsPerItem: amount().optional().describe('Calls for an item, one after the other; 1 by default.'),
          ...expectationSchema,
        })
        .optional()
        .describe('What it is expected to have to do, for `sluice config explain` and `--dry-run`.'),
    })
    .meta({
      not: { required: ['chunk'], anyOf: ['prompt', 'fixAnswer', 'gleaning', 'cache'].map((key) => ({ required: [key] })) },
      dependentSchemas: {
        fixAnswer: { required: ['answer'], properties: { answer: { not: { const: 'text' } } } },
        listLength: { required: ['answer'], properties: { answer: { not: { enum: ['text', 'json'] } } } },
      },
    }),
);

/** The stages of a pipeline, in their order, as a file says them. */
export const stagesSchema = /* @__PURE__ */ schema(() =>
  z.array(stageSchema).min(1).describe('The stage level: what is done with each document, in this order.'),
);

const levelsSchema = /* @__PURE__ */ schema(() =>
  z
    .strictObject({
      batch_level: z
        .strictObject({
          max_concurrent_batches: whole().optional().describe('`batches.concurrency`'),
          questions_per_batch: whole()
            .optional()
            .describe(
              '`listLength` of the stage with `batch_mode`, and `{{questions_per_batch}}` in every prompt; without such a stage `expect.itemsPerDocument` of all',
            ),
          scheduling: z.enum(['fair', 'priority', 'round_robin']).optional().describe('`batches.scheduling`'),
          priority: text().optional().describe('`batches.priority`, with `scheduling: priority`'),
        })
        .meta({ description: '`batches`', ...priorityRules('priority') })
        .optional(),
      stage_level: z
        .record(
          name(),
          z.strictObject({
            concurrency: whole().optional().describe('`concurrency`, with `scope: perBatch`'),
            timeout: positive().optional().describe('`timeoutMs`, in seconds'),
            allow_partial_failure: z.boolean().optional().describe('`allowPartialFailure`'),
            batch_mode: z.boolean().optional().describe('`answer: list`'),
          }),
        )
        .optional()
        .describe('`stages`, by their names; when there are `stages` as well, what it says of those'),
      request_level: z
        .strictObject({
          max_concurrent_requests: whole().optional().describe('`limits.concurrency`'),
          rate_limit: z
            .strictObject({
              requests_per_second: positive().describe('`limits.requestsPerSecond`'),
              burst_size: z.number().min(1).optional().describe('`limits.burst`'),
            })
            .optional()
            .describe('of `limits`'),
          connection_pool: z
            .record(z.string(), z.unknown())
            .optional()
            .describe("Has no effect, and `sluice config check` says so: Node's `fetch` keeps its own connections."),
        })
        .optional()
        .describe('`limits`'),
    })
    .describe('Another way to write `batches`, `stages` and `limits`: by level, with times in seconds.'),
);

/** A whole configuration, as a file says it. */
export const configSchema = /* @__PURE__ */ schema(() =>
  z
    .strictObject({
      $schema: z.string().optional().describe('Where the JSON Schema is, for editors.'),
      name: text().optional().describe('Name of the pipeline, in its events.'),
      lane: name().optional().describe('Lane of all its calls; the last one by default.'),
      model: modelSchema.optional(),
      limits: limitsSchema.optional(),
      batches: batchesSchema.optional(),
      stages: stagesSchema.optional(),
      concurrency: levelsSchema.optional(),
      input: z
        .strictObject({
          path: text().describe('A file or a folder; relative to the configuration.'),
          format: z.enum(['jsonl', 'csv', 'folder']).optional().describe('By default what the name says, or what stands there.'),
          id: text().optional().describe('The field that names a document; `id`, or else its content, by default.'),
        })
        .optional()
        .describe('Where documents come from.'),
      output: z
        .strictObject({
          path: text().describe('A JSONL file; its journal stands beside it.'),
          failures: text().optional().describe('Where failures go; `<path>.failures.jsonl` by default.'),
        })
        .optional()
        .describe('Where results go.'),
      prices: z
        .record(
          z.string(),
          z.strictObject({
            inputUsdPerMillion: amount().optional().describe('US dollars for a million tokens that are sent.'),
            cacheReadUsdPerMillion: amount()
              .optional()
              .describe('US dollars for a million tokens read from the prompt cache. Without it: `inputUsdPerMillion`.'),
            cacheWriteUsdPerMillion: amount()
              .optional()
              .describe('US dollars for a million tokens written to it. Without it: twice `inputUsdPerMillion`.'),
            cacheWrite1hUsdPerMillion: amount()
              .optional()
              .describe(
                'US dollars for a million tokens written to it for an hour. Without it: twice `inputUsdPerMillion`, or the write price where that is more.',
              ),
            outputUsdPerMillion: amount().optional().describe('US dollars for a million tokens that come back.'),
            usdPerCall: amount().optional().describe('US dollars for a call.'),
            maxOutputTokens: whole()
              .optional()
              .describe('Tokens of the longest answer of the model: what a budget reserves for calls without `maxTokens`.'),
          }),
        )
        .optional()
        .describe('What models cost, by their names.'),
      budget: z
        .strictObject({
          usd: positive().optional().describe('Most US dollars.'),
          tokens: whole().optional().describe('Most tokens.'),
          windowMs: positive().optional().describe('In so many ms; in all by default.'),
          warnAt: z.number().min(0).max(1).optional().describe('The part of it at which an event says so; 0.8 by default.'),
        })
        .meta({
          description: 'What may be spent.',
          dependentSchemas: { windowMs: { anyOf: [{ required: ['usd'] }, { required: ['tokens'] }] } },
        })
        .optional(),
      expect: z
        .strictObject({ documents: whole(0).optional().describe('Documents in all.'), ...expectationSchema })
        .optional()
        .describe('The load that is expected, for `sluice config explain` and `--dry-run`; a stage may say more.'),
    })
    .meta({
      title: 'Configuration of Sluice',
      dependentSchemas: { concurrency: { not: { anyOf: [{ required: ['limits'] }, { required: ['batches'] }] } } },
    }),
);

/** Values without the `undefined` that a key which is left out does not have. */
type Given<T> = T extends readonly (infer E)[]
  ? readonly Given<E>[]
  : T extends object
    ? { readonly [K in keyof T]: Given<Exclude<T[K], undefined>> }
    : T;

/** What a file may say. */
export type ConfigFile = Given<z.infer<typeof configSchema>>;

/** The request level: options of `createAccount` as they are. */
export type ConfigLimits = Omit<Given<z.infer<typeof limitsSchema>>, 'requestsPerSecond'>;

/** One stage. */
export type StageConfig = Given<z.infer<typeof stageSchema>>;

/**
 * What `parseConfig` answers: one way of saying everything.
 * @beta
 */
export interface Config extends Omit<ConfigFile, '$schema' | 'concurrency' | 'limits'> {
  readonly limits?: ConfigLimits;
}
