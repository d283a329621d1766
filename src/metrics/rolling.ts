import type { FlowEvent } from '../../operators/index.js';
import type { CallRecord } from './call-record.js';
import type { CallMetrics } from './call-stats.js';
import type { CollectedMetrics } from './collected.js';
import { Collected } from './collected.js';
import type { FlowMetrics } from './flow-stats.js';

/** {@link FlowMetrics} of the last window. */
export interface FlowWindow extends FlowMetrics {
  readonly perSecond: Readonly<Record<'accepted' | 'calls' | 'retries' | 'fulfilled' | 'rejected', number>>;
  /** Throughput of `createStages`. */
  readonly perMinute: Readonly<Record<'items' | 'documents', number>>;
}

/** {@link CallMetrics} of the last window. */
export interface CallWindow extends CallMetrics {
  readonly perSecond: Readonly<Record<'attempts' | 'failures' | 'promptTokens' | 'completionTokens', number>>;
}

/** The last window: rates, shares and percentiles of what was told in it, and of nothing before. */
export interface MetricsWindow extends CollectedMetrics<FlowWindow, CallWindow> {
  /** How much time it covers, in ms: as much as was asked for, at most a tenth less; at the beginning, what there is. */
  readonly windowMs: number;
}

/** A window moves on by so many parts of itself. */
const PARTS = 10;

interface Part {
  /** Parts since the clock's zero. */
  readonly number: number;
  readonly told: Collected;
  isEmpty: boolean;
}

/** What was told in the last `windowMs`, kept in ten parts; the oldest is forgotten as a whole. */
export class Rolling {
  readonly #partMs: number;
  readonly #new: () => Collected;
  readonly #startedAt: number;
  /** Oldest first; the last is the present. */
  #parts: Part[];

  constructor(windowMs: number, now: number, newCollected: () => Collected) {
    this.#partMs = windowMs / PARTS;
    this.#new = newCollected;
    this.#startedAt = now;
    this.#parts = [{ number: this.#numberAt(now), told: newCollected(), isEmpty: true }];
  }

  add(event: FlowEvent, now: number): void {
    this.#present(now).add(event);
  }

  record(record: CallRecord, now: number): void {
    this.#present(now).record(record);
  }

  /** Nothing was told in it. */
  isEmpty(now: number): boolean {
    this.#moveTo(now);
    return this.#parts.every(({ isEmpty }) => isEmpty);
  }

  snapshot(now: number): MetricsWindow {
    const present = this.#moveTo(now);
    const all = this.#new();
    for (const { told } of this.#parts) all.merge(told);
    const windowMs = now - Math.max(this.#startedAt, (present.number - PARTS + 1) * this.#partMs);
    // A single call in the first moment is no rate.
    const seconds = Math.max(windowMs, this.#partMs) / 1000;
    const per = <N extends string>(unitSeconds: number, metrics: Readonly<Record<N, number>>, ...names: readonly N[]) =>
      Object.fromEntries(names.map((name) => [name, (metrics[name] / seconds) * unitSeconds])) as Record<N, number>;
    return {
      windowMs,
      ...all.show(
        (flow) => ({
          ...flow,
          perSecond: per(1, flow, 'accepted', 'calls', 'retries', 'fulfilled', 'rejected'),
          perMinute: per(60, flow, 'items', 'documents'),
        }),
        (calls) => ({ ...calls, perSecond: per(1, calls, 'attempts', 'failures', 'promptTokens', 'completionTokens') }),
      ),
    };
  }

  #present(now: number): Collected {
    const present = this.#moveTo(now);
    present.isEmpty = false;
    return present.told;
  }

  #moveTo(now: number): Part {
    const last = this.#parts.at(-1) as Part;
    const number = this.#numberAt(now);
    if (number <= last.number) return last;
    const part = { number, told: this.#new(), isEmpty: true };
    part.told.goOnFrom(last.told);
    this.#parts = [...this.#parts.filter((one) => one.number > number - PARTS), part];
    return part;
  }

  #numberAt(now: number): number {
    return Math.floor(now / this.#partMs);
  }
}
