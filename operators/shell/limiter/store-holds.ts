import type { CreditStore } from '../../options/credit-store.js';
import { Message } from './store-messages.js';

/** What is told whether the store has answered. */
interface StoreWatch {
  found(): void;
  lost(): void;
}

/** Tells a store of the pauses of one limiter. Only the latest counts. */
export class StoreHolds {
  private readonly of: { readonly store: CreditStore; readonly scope: string };
  private readonly clock: { now(): number };
  private readonly watch: StoreWatch;
  /** The pause that the store may not have heard of: 0 for the end of one. */
  private unheard: { readonly ms: number; readonly until: number } | undefined = undefined;

  constructor(of: { readonly store: CreditStore; readonly scope: string }, clock: { now(): number }, watch: StoreWatch) {
    this.of = of;
    this.clock = clock;
    this.watch = watch;
  }

  tell(ms: number): void {
    this.unheard = { ms, until: this.clock.now() + ms };
    this.tellAgain();
  }

  /** The store is there again. */
  tellAgain(): void {
    const { clock, of, unheard, watch } = this;
    if (!unheard) return;
    const { ms, until } = unheard;
    const leftMs = ms === 0 ? 0 : until - clock.now();
    const told = (): void => {
      if (this.unheard === unheard) this.unheard = undefined;
    };
    // A pause that is over must not end a longer one.
    if (ms > 0 && leftMs <= 0) {
      told();
      return;
    }
    const message = new Message<void>(
      () => of.store.hold(of.scope, leftMs),
      () => {
        told();
        watch.found();
      },
      () => {
        watch.lost();
      },
    );
    message.begin();
  }
}
