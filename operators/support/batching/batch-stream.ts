import type { Subscriber } from 'rxjs';
import { count, oneOf, optionNames, orDefault } from '../../options/options.js';
import type { Classify, Settled } from '../../options/types.js';
import { connect } from '../../shell/connect.js';
import type { BatchWork } from './batch-engine.js';
import { BatchEngine } from './batch-engine.js';
import type { EngineConfig, GatedBatchOptions } from './batch-options.js';
import { engineConfig } from './batch-options.js';

/** Options of the gated operators whose results are one stream. */
export interface BatchStreamOptions<T, R = never> extends GatedBatchOptions<T, R> {
  /**
   * Whether an item that fails for good is emitted as rejected, or errors the stream with its reason, at once and ahead of results held
   * back, and aborts the rest. @defaultValue 'settle'
   */
  readonly failure?: 'settle' | 'failFast';
  /**
   * What a source error does: `'abort'` stops everything and errors at once, `'drain'` settles what was accepted first,
   * `'flush'` does the same without waiting for batches to fill (which ends up the same here, where draining never waits for company).
   * @defaultValue 'abort'
   */
  readonly onSourceError?: 'abort' | 'drain' | 'flush';
}

/** What the options of {@link BatchStreamOptions} are when left out, beside the shared ones. */
export const BATCH_STREAM_DEFAULTS = { failure: 'settle', onSourceError: 'abort' } as const;

const OPTION_NAMES = /* @__PURE__ */ optionNames(BATCH_STREAM_DEFAULTS);

/** The options, checked. */
export interface StreamConfig<T> {
  readonly engine: EngineConfig<T>;
  readonly drains: boolean;
}

/** @throws FlowConfigError naming the operator and the option */
export function streamConfig<T, R>(operator: string, options: BatchStreamOptions<T, R>, classify: Classify): StreamConfig<T> {
  const d = BATCH_STREAM_DEFAULTS;
  const engine = engineConfig(operator, options, classify, OPTION_NAMES);
  const failure = oneOf(operator, 'failure', orDefault(options.failure, d.failure), ['settle', 'failFast']);
  const onSourceError = oneOf(operator, 'onSourceError', orDefault(options.onSourceError, d.onSourceError), ['abort', 'drain', 'flush']);
  return { engine: { ...engine, failFast: failure === 'failFast' }, drains: onSourceError !== 'abort' };
}

/** One subscription: an engine, what it listens to beside its source, and the stream its results go to. */
export class BatchStream<T, R> {
  readonly engine: BatchEngine<T, R>;
  readonly #config: StreamConfig<T>;
  readonly #to: Subscriber<Settled<T, R>>;
  readonly #failed: (error: unknown) => void;
  #sourceError: { readonly error: unknown } | undefined;

  /** @param room told when there may be room for more, for whoever pulls */
  constructor(config: StreamConfig<T>, work: BatchWork<T, R>, to: Subscriber<Settled<T, R>>, room?: () => void) {
    this.#config = config;
    this.#to = to;
    // Over before its consumer hears of the error: nothing that is done there starts anything more.
    const failed = (error: unknown): void => {
      this.engine.close();
      to.error(error);
    };
    this.#failed = failed;
    this.engine = new BatchEngine<T, R>(config.engine, work, {
      settled: (job) => {
        if (job.failed && config.engine.failFast) failed(job.reason);
        else to.next(job.toSettled());
      },
      finished: () => {
        if (this.#sourceError) to.error(this.#sourceError.error);
        else to.complete();
      },
      failed,
      overflowed: failed,
      ...(room && { room, pulls: true }),
    });
    to.add(() => {
      this.engine.close();
    });
  }

  sourceFailed(error: unknown): void {
    if (this.#config.drains) {
      this.#sourceError = { error };
      this.engine.finish();
    } else {
      this.#failed(error);
    }
  }

  /** Follows the options that are streams. */
  listen(): void {
    const { operator, concurrency$, flush$ } = this.#config.engine;
    if (concurrency$) {
      connect(concurrency$, this.#to, {
        next: (concurrency) => {
          this.engine.setConcurrency(count(operator, 'concurrency', concurrency));
        },
        // The last value stays in force.
        complete: () => undefined,
      });
    }
    if (flush$) {
      connect(flush$, this.#to, {
        next: () => {
          this.engine.flush();
        },
        // No more flushes; the batches go on.
        complete: () => undefined,
      });
    }
  }
}
