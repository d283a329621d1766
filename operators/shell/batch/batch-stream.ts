import type { Observable, Subscriber } from 'rxjs';
import { noop } from 'rxjs';
import type { Job } from '../../kernel/machine/job.js';
import { BATCH_MAP } from '../../options/defaults.js';
import { oneOf } from '../../options/options.js';
import type { Settled } from '../../options/types.js';
import { settledOf } from '../calls/call.js';
import { tearDown } from '../calls/report.js';
import { connect } from '../streams/connect.js';
import type { BatchConfig, BatchWork, GateOptions } from './batch-options.js';
import { BATCH_CHECKS, batchConfig } from './batch-options.js';
import type { BatchOutput } from './batch-shell.js';
import { BatchShell } from './batch-shell.js';

/** Options of the batching operators whose results are one stream. */
export interface BatchStreamOptions<T, R = never> extends GateOptions<T, R> {
  /**
   * What a source error does: `'abort'` stops everything and errors at once, `'drain'` settles what was accepted first,
   * `'flush'` does the same without waiting for batches to fill (which ends up the same here, where draining never waits for company).
   * @defaultValue 'abort'
   */
  readonly onSourceError?: 'abort' | 'drain' | 'flush';
}

export const STREAM_CHECKS = /* @__PURE__ */ (() => ({ ...BATCH_CHECKS, onSourceError: oneOf('abort', 'drain', 'flush') }))();

/** The options, checked. */
export interface StreamConfig<T> extends BatchConfig<T> {
  readonly onSourceError: 'abort' | 'drain' | 'flush';
}

/** @throws FlowConfigError naming the operator and the option */
export function streamConfig<T, R>(
  operator: string,
  options: BatchStreamOptions<T, R>,
  checks: object = STREAM_CHECKS,
  defaults: object = {},
): StreamConfig<T> {
  return batchConfig(operator, options, checks as never, { ...BATCH_MAP, ...defaults }) as StreamConfig<T>;
}

/** One subscription: its results go to one stream. */
export class BatchStream<T, R> implements BatchOutput<T, R> {
  readonly shell: BatchShell<T, R>;
  private sourceError: { readonly error: unknown } | undefined = undefined;

  /** @param hasRoom called when there may be room for more */
  constructor(
    private readonly config: StreamConfig<T>,
    work: BatchWork<T, R>,
    private readonly to: Subscriber<Settled<T, R>>,
    readonly hasRoom?: (() => void) | undefined,
  ) {
    this.shell = new BatchShell(config, work, this);
    to.add(() => {
      tearDown(this.shell.close.bind(this.shell));
    });
  }

  /** Takes the items of a source. */
  follow(source: Observable<T>): void {
    const { shell, to } = this;
    // First: a source that emits at once may make its consumer ask for a flush.
    this.listen();
    connect(source, to, {
      next: (item) => {
        shell.push(item);
      },
      error: (error) => {
        this.sourceFailed(error);
      },
      complete: () => {
        shell.finish();
      },
    });
  }

  sourceFailed(error: unknown): void {
    if (this.config.onSourceError === 'abort') this.failed(error);
    else {
      this.sourceError = { error };
      this.shell.finish();
    }
  }

  /** Follows the options that are streams. */
  listen(): void {
    const { shell, config, to } = this;
    const { concurrency$, flush } = config;
    const follow = <V>(values: Observable<V> | undefined, next: (value: V) => void): void => {
      // What has completed changes nothing any more: the last value stays in force.
      if (values) connect(values, to, { next, complete: noop });
    };
    follow(concurrency$, (concurrency) => {
      shell.setConcurrency(concurrency);
    });
    follow(flush, () => {
      shell.flush();
    });
  }

  settled(job: Job<T, R>): void {
    this.to.next(settledOf(job, job.failed, job.outcome));
  }

  finished(): void {
    if (this.sourceError) this.to.error(this.sourceError.error);
    else this.to.complete();
  }

  /** Over before the consumer gets the error: nothing that the consumer does then starts further work. */
  failed(error: unknown): void {
    this.shell.close();
    this.to.error(error);
  }

  overflowed(error: unknown): void {
    this.failed(error);
  }
}
