import { Observable, Subject } from 'rxjs';
import type { Store, StoreStatus, ToStoreOptions } from '../../operators/to-store.js';
import { toStore } from '../../operators/to-store.js';
import { report, selected } from '../../operators/toolkit.js';
import type { TurnEvent } from './turn-types.js';

export type Reduce<V> = (view: V, event: TurnEvent) => V;

/**
 * A store of what a conversation looks like. It is kept up whether somebody looks or not; who looks sees it at the pace of the store, and
 * who begins to look sees what is, not what was shown last.
 */
export class ViewStore<V> implements Store<V> {
  readonly #reduce: Reduce<V>;
  readonly #initial: V;
  readonly #options: ToStoreOptions;
  readonly #changes = new Subject<V>();
  readonly #source: Observable<V>;
  #now: V;
  /** Of those who look; idle when nobody does. */
  #shown: Store<V> | undefined;

  /** @param watched - told when somebody begins to look, and when nobody does any more */
  constructor(reduce: Reduce<V>, initial: V, options: ToStoreOptions, watched: (isWatched: boolean) => void) {
    this.#reduce = reduce;
    this.#initial = initial;
    this.#now = initial;
    this.#options = options;
    this.#source = new Observable((subscriber) => {
      watched(true);
      subscriber.add(() => {
        watched(false);
      });
      this.#changes.subscribe(subscriber);
    });
    // Wrong options are told where the store is made.
    toStore(this.#source, initial, options);
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    if (this.#live === undefined) this.#shown = toStore(this.#source, this.#now, this.#options);
    return (this.#shown as Store<V>).subscribe(listener);
  };

  readonly getSnapshot = (): V => {
    const shown = this.#live;
    return shown ? shown.getSnapshot() : this.#now;
  };

  readonly getServerSnapshot = (): V => this.#initial;

  readonly select = <P>(of: (snapshot: V) => P, isEqual?: (one: P, other: P) => boolean): Store<P> => selected(this, of, isEqual);

  get status(): StoreStatus {
    return this.#shown?.status ?? 'idle';
  }

  get error(): unknown {
    return undefined;
  }

  take(event: TurnEvent): void {
    try {
      this.#now = this.#reduce(this.#now, event);
    } catch (error) {
      // A view of yours that throws must not end the turn.
      report(error);
      return;
    }
    this.#changes.next(this.#now);
  }

  /** The conversation is forgotten. */
  end(): void {
    this.#changes.complete();
  }

  get #live(): Store<V> | undefined {
    return this.#shown?.status === 'idle' ? undefined : this.#shown;
  }
}
