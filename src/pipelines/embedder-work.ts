import { from, map } from 'rxjs';
import { BatchShapeError } from '../../operators/errors.js';
import { count, isPromise, requiredFunction, schedulerOption } from '../../operators/toolkit.js';
import type { BatchWork } from '../../operators/types.js';
import { untilClosed } from './connection.js';
import type { ClientEmbedderOptions, EmbedCall, EmbedderOptions } from './embedder-options.js';
import { isOverClient, NAME } from './embedder-options.js';
import { requestEmbeddings } from './embeddings-api.js';
import { endpointOf } from './endpoint.js';
import { VectorCheck } from './vector-check.js';

/** What is done with a batch of texts. @throws FlowConfigError */
export function embedderWork(options: EmbedderOptions | ClientEmbedderOptions): BatchWork<string, Float32Array> {
  const call = isOverClient(options) ? requiredFunction(NAME, 'call', options.call) : endpointCall(options);
  const vectors = new VectorCheck(NAME);
  const scheduler = schedulerOption(NAME, 'scheduler', options.scheduler);
  return (texts, context) => {
    const answered = (answer: unknown): readonly (Float32Array | Error)[] => {
      if (!Array.isArray(answer)) throw new BatchShapeError(NAME, texts.length, 0, 'expected the call to answer an array of vectors');
      return vectors
        .checked(answer)
        .map((vector) => (vector instanceof Error || vector instanceof Float32Array ? vector : Float32Array.from(vector)));
    };
    const input = call(texts, context);
    // A promise stays one: it keeps its permit until it is really over, also at the server.
    return isPromise(input) ? untilClosed(Promise.resolve(input).then(answered), context, scheduler) : from(input).pipe(map(answered));
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
