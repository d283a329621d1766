import { from, map } from 'rxjs';
import type { BatchWork } from '../../operators/support/batching/batch-engine.js';
import { BatchShapeError } from '../../operators/support/errors.js';
import { count, required } from '../../operators/support/options.js';
import { isPromise } from '../../operators/support/work.js';
import type { ClientEmbedderOptions, EmbedCall, EmbedderOptions } from './embedder-options.js';
import { isOverClient, NAME } from './embedder-options.js';
import { requestEmbeddings } from './embeddings-api.js';
import { endpointOf } from './endpoint.js';

/** What is done with a batch of texts. @throws FlowConfigError */
export function embedderWork(options: EmbedderOptions | ClientEmbedderOptions): BatchWork<string, Float32Array> {
  const call = isOverClient(options) ? required(NAME, 'call', options.call) : endpointCall(options);
  return (texts, context) => {
    const answered = (answer: unknown): readonly Float32Array[] => vectorsOf(answer, texts.length);
    const input = call(texts, context);
    // A promise stays one: it keeps its permit until it is really over.
    return isPromise(input) ? input.then(answered) : from(input).pipe(map(answered));
  };
}

function endpointCall(options: EmbedderOptions): EmbedCall {
  const { dimensions } = options;
  const endpoint = {
    ...endpointOf(NAME, '/embeddings', options),
    dimensions: dimensions === undefined ? undefined : count(NAME, 'dimensions', dimensions),
  };
  return (texts, context) => requestEmbeddings(endpoint, texts, context);
}

/** @throws BatchShapeError for what are no vectors; whether they are as many as the texts is seen when they are handed out */
function vectorsOf(answer: unknown, size: number): readonly Float32Array[] {
  if (!Array.isArray(answer)) throw new BatchShapeError(NAME, size, 0, 'expected the call to answer an array of vectors');
  return answer.map((vector: unknown) => {
    if (vector instanceof Float32Array) return vector;
    if (!isList(vector)) throw new BatchShapeError(NAME, size, answer.length, 'the call answered with something that is no vector');
    return Float32Array.from(vector);
  });
}

function isList(value: unknown): value is ArrayLike<number> {
  return typeof value === 'object' && value !== null && typeof (value as { length?: unknown }).length === 'number';
}
