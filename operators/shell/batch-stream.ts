import type { Observable, Subscriber } from 'rxjs';
import { noop } from 'rxjs';
import { Job } from '../kernel/machine/job.js';
import { count, oneOf } from '../options/options.js';
import type { Settled } from '../options/types.js';
import type { BatchConfig, BatchWork, GateOptions } from './batch-options.js';
import { BATCH_CHECKS, batchConfig } from './batch-options.js';
import { BatchShell } from './batch-shell.js';
import { settledOf } from './call.js';
import { connect } from './connect.js';
import { tearDown } from './report.js';

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
  return batchConfig(operator, options, checks as never, { onSourceError: 'abort', ...defaults }) as StreamConfig<T>;
}

/** One subscription: its results go to one stream. */
export class BatchStream<T, R> extends BatchShell<T, R> {
  private sourceError: { readonly error: unknown } | undefined = undefined;

  constructor(
    override readonly config: StreamConfig<T>,
    work: BatchWork<T, R>,
    protected readonly to: Subscriber<Settled<T, R>>,
  ) {
    super(config, work);
    to.add(() => {
      tearDown(this.close.bind(this));
    });
  }

  next(input: T): void {
    if (this.isPlain && !this.machine.refusal) this.push(input);
    else this.add(new Job(input));
  }

  sourceFailed(error: unknown): void {
    if (this.config.onSourceError === 'abort') this.failed(error);
    else {
      this.sourceError = { error };
      this.finish();
    }
  }

  /** Follows the options that are streams. */
  listen(): void {
    const { operator, concurrency$, flush } = this.config;
    const follow = <V>(values: Observable<V> | undefined, next: (value: V) => void): void => {
      // What has completed changes nothing any more: the last value stays in force.
      if (values) connect(values, this.to, { next, complete: noop });
    };
    follow(concurrency$, (concurrency) => {
      this.setConcurrency(count(operator, 'concurrency', concurrency));
    });
    follow(flush, () => {
      this.flush();
    });
  }

  protected override settled(job: Job<T, R>): void {
    this.to.next(settledOf(job, job.failed, job.outcome));
  }

  protected override finished(): void {
    if (this.sourceError) this.to.error(this.sourceError.error);
    else this.to.complete();
  }

  /** Over before its consumer hears of the error: nothing that is done there starts anything more. */
  protected override failed(error: unknown): void {
    this.close();
    this.to.error(error);
  }

  protected override overflowed(error: unknown): void {
    this.failed(error);
  }
}
