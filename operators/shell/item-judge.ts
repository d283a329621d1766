import type { ItemMachine } from '../kernel/machine/item-machine.js';
import type { KeyLane } from '../kernel/queues/key-lane.js';
import { ask } from '../options/ask.js';
import type { ItemConfig } from './item-options.js';

/** What callbacks say about an item: of the one that was judged last, so that it costs no object. */
export class ItemJudge<T> {
  key: unknown = undefined;
  /** Where items of the key stand, if there are any. */
  lane: KeyLane<T> | undefined;
  /** Most of a new key at a time. */
  limit = Infinity;
  /** In which line its result waits for its turn. */
  line: unknown = undefined;
  /** Why no more can be said. */
  failure: { readonly error: unknown } | undefined = undefined;
  /** Whether anything is asked. */
  readonly isAsking: boolean;
  private readonly config: ItemConfig<T, never>;
  private readonly machine: ItemMachine<T>;

  constructor(config: ItemConfig<T, never>, machine: ItemMachine<T>) {
    const { key, order } = config;
    this.config = config;
    this.machine = machine;
    this.isAsking = (key ?? order?.keyOf) !== undefined;
    this.lane = machine.find(undefined);
  }

  judge(item: T): void {
    const { operator, key, limitOf, order } = this.config;
    this.failure = undefined;
    this.line = undefined;
    try {
      if (order?.keyOf) this.line = ask(operator, 'key', order.keyOf, item);
      if (key === undefined) return;
      this.key = ask(operator, 'key', key, item);
      this.lane = this.machine.find(this.key);
      if (this.lane) return;
      this.limit = limitOf(this.key);
      // Asking may have begun what there was none of.
      this.lane = this.machine.find(this.key);
    } catch (error) {
      this.failure = { error };
    }
  }
}
