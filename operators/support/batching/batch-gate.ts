import type { Bidder, Lease, Limiter, Place } from '../limiting/limiter-types.js';
import type { EngineConfig } from './batch-options.js';
import type { BatchQueue } from './batch-queue.js';
import { totalWeight } from './job.js';
import type { GateLimiter } from './own-slots.js';

/** What a gate needs of the engine it belongs to. */
export interface GateHost {
  now(): number;
  laneName(lane: number): string;
  /** The lane whose turn it is, or -1. */
  lead(): number;
  /** The engine owns the lease now. */
  granted(lease: Lease): void;
  refused(error: unknown): void;
  /** Something became free while nothing was asked for. */
  freed(): void;
}

/** An engine's side of its limiter: its one place in the queue, what it bids there, and what a batch may weigh. */
export class BatchGate<T, R> implements Bidder {
  readonly limiter: GateLimiter;
  readonly #config: EngineConfig<T>;
  readonly #queue: BatchQueue<T, R>;
  readonly #host: GateHost;
  /** Without `weigh` a weight is a count, not a number of tokens. */
  readonly #weighs: boolean;
  readonly #maxWeight: number;
  /** Shared with others; undefined when the slots are its own. */
  readonly #shared: Limiter | undefined;
  #place: Place | undefined;
  #lane = -1;
  #enlisting = false;
  #budget = Infinity;
  /** How long calls take, smoothed; undefined before the first. */
  #latencyMs: number | undefined;
  #unwatch: (() => void) | undefined;

  constructor(config: EngineConfig<T>, queue: BatchQueue<T, R>, host: GateHost) {
    this.#config = config;
    this.#queue = queue;
    this.#host = host;
    this.#weighs = config.weigh !== undefined;
    this.#maxWeight = config.maxWeight;
    this.#shared = typeof config.limiter === 'function' ? undefined : config.limiter;
    this.limiter = typeof config.limiter === 'function' ? config.limiter() : config.limiter;
  }

  get ownsLimiter(): boolean {
    return this.#shared === undefined;
  }

  /** Whether a batch waits for a permit. */
  get isWaiting(): boolean {
    return this.#place !== undefined;
  }

  /** The lane it waits in. */
  get lane(): number {
    return this.#lane;
  }

  /** What a batch may weigh: no more than the limiter can ever grant at once. */
  get aim(): number {
    return this.#charges() ? Math.min(this.#maxWeight, this.limiter.tokenCapacity) : this.#maxWeight;
  }

  /** What one item may weigh. */
  get heaviest(): number {
    const { hardMaxWeight } = this.#config;
    return this.#charges() && !this.limiter.borrows ? Math.min(hardMaxWeight, this.limiter.tokenCapacity) : hardMaxWeight;
  }

  /** What the batch that was bid for may weigh. */
  get budget(): number {
    return this.#budget;
  }

  /** From when on the wait for a permit must be looked at again; Infinity when nothing is to be saved up for. */
  get wakeAt(): number {
    return this.#place !== undefined && this.#charges() ? this.#shrinkAt() : Infinity;
  }

  #charges(): boolean {
    return this.#weighs && this.limiter.tokenCapacity !== Infinity;
  }

  /** Asks for a permit; it may be granted before this returns. */
  enlist(): void {
    this.watch(false);
    this.#lane = this.#host.lead();
    this.#enlisting = true;
    const place = this.limiter.enlist(this, this.#config.table.isDeclared ? this.#host.laneName(this.#lane) : undefined);
    if (!(this.#enlisting as boolean)) return;
    this.#enlisting = false;
    this.#place = place;
  }

  /** Bids again when what is wanted has changed: without tokens it never does, and who left is to make way at the end of the frame only. */
  poke(): void {
    if (this.#charges()) this.#place?.poke();
  }

  withdraw(): void {
    const place = this.#place;
    this.#place = undefined;
    place?.withdraw();
  }

  /** Listens to a limiter that others use as well, while a window holds what waits; one of its own says nothing new. */
  watch(on: boolean): void {
    if (this.#shared === undefined || on === (this.#unwatch !== undefined)) return;
    this.#unwatch?.();
    this.#unwatch = on
      ? this.#shared.watch(() => {
          this.#host.freed();
        })
      : undefined;
  }

  /** Leaves the limiter, which is closed when nobody else uses it. */
  close(): void {
    this.withdraw();
    this.watch(false);
    if (this.ownsLimiter) this.limiter.close();
  }

  /** Whether it matters how long calls take. */
  get isTimed(): boolean {
    return this.#weighs;
  }

  /** A call has succeeded. */
  took(latencyMs: number): void {
    this.#latencyMs = this.#latencyMs === undefined ? latencyMs : this.#latencyMs + 0.2 * (latencyMs - this.#latencyMs);
  }

  /** Wants what the next batch weighs; less only when a deadline would pass while saving up for it. */
  bid(affordable: number): number | undefined {
    const lead = this.#host.lead();
    if (lead === -1) {
      this.#place = undefined;
      return undefined;
    }
    this.#budget = this.aim;
    if (!this.#charges()) return 0;
    const group = this.#queue.groupOf(lead);
    if (group) return totalWeight(group.members);
    const whole = this.#queue.plan(lead, this.#budget).weight;
    if (whole <= affordable || this.#host.now() < this.#shrinkAt()) return whole;
    const part = this.#queue.plan(lead, affordable).weight;
    if (part > affordable) return whole;
    this.#budget = affordable;
    return part;
  }

  granted(lease: Lease): void {
    this.#place = undefined;
    this.#enlisting = false;
    this.#host.granted(lease);
  }

  refused(error: unknown): void {
    this.#place = undefined;
    this.#enlisting = false;
    this.#host.refused(error);
  }

  /** From when on saving up for a whole batch would cost a waiting item its deadline, judging by how long calls have taken. */
  #shrinkAt(): number {
    let at = Infinity;
    this.#queue.heads(({ deadlineAt, deadlineMs }) => {
      if (deadlineAt !== Infinity) at = Math.min(at, deadlineAt - (this.#latencyMs ?? deadlineMs / 2));
    });
    return at;
  }
}
