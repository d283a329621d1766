import type { SchedulerLike, Subscription } from 'rxjs';
import { asapScheduler, asyncScheduler } from 'rxjs';
import { isAmount, unusable } from '../../options/answers.js';
import { ask } from '../../options/ask.js';
import type { FlushReason } from '../../options/events.js';
import type { BatchGate } from './batch-gate.js';
import type { EngineConfig } from './batch-options.js';
import type { BatchQueue } from './batch-queue.js';
import type { Boundaries } from './boundaries.js';

/** What the timing needs of the engine it belongs to. */
export interface TimingHost {
  /** The frame is over. */
  framed(): void;
  /** The `window` of yours failed. */
  failed(error: unknown): void;
}

/** When fresh items may leave: bursts, windows, boundaries, flushes and the end. */
export class BatchTiming<T, R> {
  readonly #config: EngineConfig<T>;
  readonly #queue: BatchQueue<T, R>;
  readonly #gate: BatchGate<T, R>;
  readonly #boundaries: Boundaries;
  readonly #host: TimingHost;
  readonly #frameScheduler: SchedulerLike;
  /** No timer fires before a frame is over. */
  readonly #isMicro: boolean;
  /** Ends the current frame; until then a batch that is not full waits for the rest of its burst. */
  #frame: Subscription | undefined;
  /** When its first item was accepted. */
  #framedAt = 0;
  #finishing = false;

  constructor(config: EngineConfig<T>, queue: BatchQueue<T, R>, gate: BatchGate<T, R>, boundaries: Boundaries, host: TimingHost) {
    this.#config = config;
    this.#queue = queue;
    this.#gate = gate;
    this.#boundaries = boundaries;
    this.#host = host;
    this.#frameScheduler = config.scheduler ?? (config.burst === 'tick' ? asyncScheduler : asapScheduler);
    this.#isMicro = this.#frameScheduler === asapScheduler;
  }

  /** Whether nothing more will come, so that nothing waits for company. */
  get isFinishing(): boolean {
    return this.#finishing;
  }

  finish(): void {
    this.#finishing = true;
    this.landFrame();
  }

  /** Makes everything with an index below this due. */
  flush(below: number): void {
    this.#boundaries.flush(below);
    this.landFrame();
  }

  /** When the open frame began, for its later items, when nothing can tell: to look at the clock costs more than to queue one. */
  get burstAt(): number | undefined {
    return this.#isMicro && this.#frame !== undefined ? this.#framedAt : undefined;
  }

  /** Whether a frame is open: what comes now waits for its end, if that does not fill a batch. */
  get isFrameOpen(): boolean {
    return this.#frame !== undefined && !this.#finishing;
  }

  /** An item has come: whether it waits for the end of its frame. */
  waitsForFrame(acceptedAt: number): boolean {
    if (this.#isFull()) return false;
    if (this.#config.burst !== 'sync' && this.#frame === undefined) {
      const frame = this.#frameScheduler.schedule(() => {
        this.landFrame();
        this.#host.framed();
      }, 0);
      // Some schedulers (`queueScheduler`) do it at once.
      if (!frame.closed) this.#frame = frame;
      this.#framedAt = acceptedAt;
    }
    return this.#frame !== undefined;
  }

  landFrame(): void {
    this.#frame?.unsubscribe();
    this.#frame = undefined;
  }

  isDue(now: number): boolean {
    return this.#finishing || this.#isFull() || this.dueAt(now) <= now;
  }

  /** When the oldest fresh item of some lane has been held long enough; asks the window again. */
  dueAt(now: number): number {
    let at = Infinity;
    let windowMs: number | undefined;
    this.#queue.heads((head, lane) => {
      const due = this.#boundaries.due(head);
      if (due === 'closeWhen') at = -Infinity;
      // The rest of the burst may still come.
      if (this.#frame !== undefined) return;
      if (due === 'flush') at = -Infinity;
      else at = Math.min(at, head.acceptedAt + (lane.maxWaitMs ?? (windowMs ??= this.#windowMs(now))));
    });
    return at;
  }

  /** Why the next batch, led by this lane, leaves. */
  reason(lead: number): FlushReason {
    if (this.#queue.fresh >= this.#config.maxSize) return 'size';
    if (this.#queue.freshWeight >= this.#gate.aim) return 'weight';
    if (this.#finishing) return 'complete';
    const head = this.#queue.head(lead);
    const due = head && this.#boundaries.due(head);
    return due ?? (this.#config.table.lanes[lead]?.maxWaitMs === 0 ? 'urgent' : 'time');
  }

  #isFull(): boolean {
    return this.#queue.isFull(this.#gate.aim);
  }

  #windowMs(now: number): number {
    const { operator, window } = this.#config;
    const { executing, concurrency, load } = this.#gate.limiter;
    const { fresh, freshWeight } = this.#queue;
    let oldest = now;
    this.#queue.heads((head) => {
      oldest = Math.min(oldest, head.acceptedAt);
    });
    let fault: unknown;
    try {
      const context = { executing, concurrency, load, queued: fresh, queuedWeight: freshWeight, oldestMs: now - oldest };
      const windowMs = ask(operator, 'window', window, context);
      if (isAmount(windowMs)) return windowMs;
      fault = unusable(operator, 'window', 'a number of ms >= 0', windowMs);
    } catch (error) {
      fault = error;
    }
    this.#host.failed(fault);
    return Infinity;
  }
}
