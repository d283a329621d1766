import type { EmbeddingModel } from 'ai';
import { check } from '../../../operators/build.js';
import { classifyError } from '../../../operators/index.js';
import { checkTexts } from '../../pipelines/text-check.js';
import { relayedSignal } from '../support/relayed-signal.js';
import { dealtWith } from './answers.js';
import type { EmbeddingRules, Model, Params, Result } from './embeddings.js';
import { opener } from './embeddings.js';
import { limited } from './limited-model.js';

type Embeddable = Exclude<EmbeddingModel, string>;

/** @stable */
export interface LimitEmbeddingModelOptions extends EmbeddingRules {
  /**
   * What becomes of a value that the model refuses. `'throw'` fails the call with the error of that value. `'empty'` gives it an empty vector,
   * and a warning that says which one it is; a call that fails for another reason, or whose values are all refused, fails with the error.
   * @defaultValue 'throw'
   */
  readonly rejected?: 'throw' | 'empty';
}

const NAME = 'limitEmbeddingModel';

/**
 * The same model under a limiter, for `embed` and `embedMany`, which then survive bad values. Each request waits for
 * a permit; what fails in a way that may pass is sent again; what is refused because of some of its values is taken apart until those stand
 * alone, so that the error that comes out is about one value.
 *
 * - **Answers** as the model does, with the usage and the warnings of all requests that were needed.
 * - **Rejects** with the model's own error, the same object. `isRetryable` on it is false then: the attempts are ours, and the SDK adds none.
 *   With `retry: false` it is left alone. Also with the signal's reason when it aborts, or with `DeadlineError`, `AttemptTimeoutError`,
 *   `SplitLimitError`, `OverflowError`, `ClosedError`.
 * - **Loses** the other vectors with `rejected: 'throw'`, because `embedMany` has no place for them: see `embedSettled`.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or `model` is not an embedding model of a provider.
 * @example
 * ```ts
 * import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
 * import { embedMany } from 'ai';
 * import { createLimiter } from 'sluice/operators';
 * import { limitEmbeddingModel } from 'sluice/ai-sdk';
 *
 * const answer = { data: [{ embedding: [0.6, 0.8] }, { embedding: [1, 0] }], usage: { prompt_tokens: 2 } };
 * const provider = createOpenAICompatible({ name: 'p', baseURL: 'http://host/v1', fetch: async () => Response.json(answer) });
 *
 * const model = limitEmbeddingModel(provider.embeddingModel('m'), { limiter: createLimiter({ concurrency: 2 }) });
 * const { embeddings } = await embedMany({ model, values: ['a', 'b'] });
 * embeddings; // => [[0.6, 0.8], [1, 0]]
 * ```
 */
export function limitEmbeddingModel<M extends Embeddable>(model: M, options: LimitEmbeddingModelOptions = {}): M {
  const open = opener(NAME, options, ['rejected']);
  const rejected = check.oneOf('throw', 'empty')(NAME, 'rejected', check.orDefault(options.rejected, 'throw'));
  const { retry, classify = classifyError } = options;
  const isItsFault = (error: unknown, isAlone: boolean): boolean => {
    const verdict = check.verdict(NAME, classify, error, { size: 1, attempt: 1, aborted: false });
    // Only others that succeed show that an error which says nothing is about the value.
    return verdict.class === 'tooLarge' || (verdict.class === 'itemFault' && !(verdict.unrecognised && isAlone));
  };

  return limited(NAME, model, 'doEmbed', {
    doEmbed: async (params: Params) => {
      const { values, abortSignal } = params;
      checkTexts(NAME, 'values', values);
      const { batcher, answers, close } = await open(model as unknown as Model, params);
      // The batcher of this call listens to a signal of its own: the caller's may be that of many calls.
      const own = abortSignal && relayedSignal(abortSignal);
      const refused: Result['warnings'] = [];
      const vectorOf = async (value: string, index: number): Promise<number[]> => {
        try {
          return await batcher.loadAsync(value, own && { signal: own.signal });
        } catch (error) {
          // The reason of an abort may be any error.
          if (rejected === 'throw' || abortSignal?.aborted || !isItsFault(error, values.length === 1)) throw error;
          refused.push({ type: 'other', message: `Value ${String(index)} of ${String(values.length)} was refused: its vector is empty.` });
          if (refused.length > 1 && refused.length === values.length) throw error;
          return [];
        }
      };
      // The first failure is that of the call, and stops what is under way.
      const all = Promise.all(values.map(vectorOf)).finally(() => {
        own?.stop();
        close();
      });
      const embeddings = await (retry === false ? all : dealtWith(all));
      const tokens = answers.flatMap(({ usage }) => usage?.tokens ?? []);
      return {
        ...answers.at(-1),
        embeddings,
        ...(tokens.length > 0 && { usage: { tokens: tokens.reduce((sum, some) => sum + some) } }),
        warnings: [...answers.flatMap(({ warnings }) => (warnings as typeof warnings | undefined) ?? []), ...refused],
      };
    },
  });
}
