import { type Observable, of } from 'rxjs';
import {
  batch,
  createEmbedder,
  createTokenEstimator,
  EMBEDDER_DEFAULTS,
  type Embedder,
  type EmbedderOptions,
  type EmbedderSnapshot,
  type EmbedOptions,
  estimateTokens,
  type FlowTotals,
  ProviderError,
  type Settled,
  type TokenEstimatorOptions,
} from 'sluice';
import { type Settled as OperatorSettled, batch as sameBatch } from 'sluice/operators';

const margin: TokenEstimatorOptions = { safetyMargin: 1.2 };
const options: EmbedderOptions = {
  baseUrl: 'http://127.0.0.1/v1',
  model: 'small',
  maxTokens: EMBEDDER_DEFAULTS.maxTokens,
  countTokens: createTokenEstimator(margin),
};
const embedder: Embedder = createEmbedder(options);
const load: EmbedOptions = { lane: 'interactive' };
same<Observable<Float32Array>>()(embedder.embed('text', load));
same<Observable<Settled<string, Float32Array>>>()(embedder.embedFrom(['one', 'two']));
const snapshot: EmbedderSnapshot = embedder.snapshot();
const totals: FlowTotals = snapshot;
same<number>()(totals.calls + snapshot.queued + estimateTokens('text'));

const error: Error = new ProviderError(429, new Headers(), 'slow down', 'rate_limit', undefined, undefined);
export const status: number | undefined = error instanceof ProviderError ? error.status : undefined;

// The root entry and `sluice/operators` hand out the same operators and types.
same<typeof sameBatch>()(batch);
same<Observable<number[]>>()(of(1).pipe(batch({ maxSize: 2 })));
export const settled: OperatorSettled<string, number> | undefined = undefined as Settled<string, number> | undefined;
