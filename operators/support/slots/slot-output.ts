import type { Subscriber } from 'rxjs';
import { Ring } from '../../kernel/queues/ring.js';
import type { Settled } from '../../options/types.js';
import { OrderedOutput } from './ordered-output.js';
import type { SlotConfig } from './slot-options.js';
import type { SlotReports } from './slot-reports.js';

/** Without a `maxQueued`, so many results wait for an earlier one at most: then nothing starts that would have to wait as well. */
const MOST_HELD = 1000;

/** What items have come to, on its way out: put in order where that is asked for, and handed to the consumer in a loop. */
export class SlotOutput<T, R> {
  readonly #config: SlotConfig<T, R>;
  readonly #to: Subscriber<Settled<T, R> | R>;
  readonly #reports: SlotReports | undefined;
  readonly #outbox = new Ring<Settled<T, R> | R>();
  readonly #ordered: OrderedOutput<Settled<T, R> | R> | undefined;
  #handingOut = false;

  constructor(config: SlotConfig<T, R>, to: Subscriber<Settled<T, R> | R>, reports: SlotReports | undefined) {
    this.#config = config;
    this.#to = to;
    this.#reports = reports;
    if (config.order !== 'completion')
      this.#ordered = new OrderedOutput((value) => {
        this.#outbox.push(value);
      });
  }

  /** What is to be handed out now. */
  get length(): number {
    return this.#outbox.length;
  }

  /** What an order holds back. */
  get held(): number {
    return this.#ordered === undefined ? 0 : this.#ordered.held;
  }

  /** Gives an item its place. */
  enter(index: number, key: unknown): void {
    this.#ordered?.open(index, this.#lineOf(key));
  }

  started(index: number): void {
    this.#ordered?.start(index);
  }

  /** So many results are held back that an item of this key would only add its own: what they wait for is under way. */
  isHeldUp(key: unknown): boolean {
    if (this.#ordered === undefined || this.#config.maxQueued !== Infinity || this.#ordered.held < MOST_HELD) return false;
    return this.#ordered.isHeadStarted(this.#lineOf(key));
  }

  /** Hands on one of an item's values, or keeps it until its turn; true when it was kept, or is to be handed out. */
  value(index: number, value: R): boolean {
    if (this.#ordered === undefined) return false;
    this.#ordered.next(index, value);
    return true;
  }

  /** An item's only value, and its end. */
  last(index: number, value: R): void {
    if (!this.value(index, value)) this.#outbox.push(value);
    this.pass(index, 'fulfilled', 1);
  }

  fulfil(input: T, index: number, value: R): void {
    this.#settle(index, { status: 'fulfilled', value, input, index, id: String(index), attempts: 1 });
  }

  reject(input: T, index: number, reason: unknown, attempts: number): void {
    this.#settle(index, { status: 'rejected', reason, input, index, id: String(index), attempts });
  }

  /** An item is over that has no result of its own. */
  pass(index: number, outcome: 'fulfilled' | 'rejected', attempts: number): void {
    this.#reports?.settled(index, outcome, attempts);
    this.#ordered?.close(index);
  }

  handOut(): void {
    if (this.#handingOut) return;
    this.#handingOut = true;
    // Emptied when the consumer leaves.
    while (this.#outbox.length > 0) this.#to.next(this.#outbox.shift() as Settled<T, R> | R);
    this.#handingOut = false;
  }

  clear(): void {
    this.#outbox.clear();
    this.#ordered?.clear();
  }

  #lineOf(key: unknown): unknown {
    return this.#config.order === 'perKey' ? key : undefined;
  }

  #settle(index: number, settled: Settled<T, R>): void {
    this.#reports?.settled(index, settled.status, settled.attempts);
    if (this.#ordered) {
      this.#ordered.next(index, settled);
      this.#ordered.close(index);
    } else {
      this.#outbox.push(settled);
    }
  }
}
