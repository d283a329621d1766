import { Observable, Subject } from 'rxjs';
import { ask, selectFrom } from '../../operators/build.js';
import type { Store, StoreStatus, ToStoreOptions } from '../../operators/index.js';
import { toStore } from '../../operators/index.js';
import { NAME } from './turn-options.js';
import type { TurnEvent } from './turn-types.js';

export type Reduce<V> = (view: V, event: TurnEvent) => V;

/** What a view has become whose `reduce` has thrown: the last one stays. A value like others, so that who looks is still one who looks. */
class BrokenView<V> {
  constructor(
    readonly last: V,
    readonly error: unknown,
  ) {}
}

/**
 * A store of what a conversation looks like. It is kept up whether somebody looks or not; who looks sees it at the pace of the store, and
 * who begins to look sees what is, not what was shown last.
 */
export class ViewStore<V> implements Store<V> {
  readonly #reduce: Reduce<V>;
  readonly #initial: V;
  readonly #options: ToStoreOptions;
  readonly #changes = new Subject<V | BrokenView<V>>();
  readonly #source: Observable<V | BrokenView<V>>;
  #now: V | BrokenView<V>;
  /** Of those who look; idle when nobody does. */
  #shown: Store<V | BrokenView<V>> | undefined;

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
    const shown = this.#live ?? toStore(this.#source, this.#now, this.#options);
    this.#shown = shown;
    return shown.subscribe(listener);
  };

  readonly getSnapshot = (): V => {
    const shown = this.#live;
    const view = shown ? shown.getSnapshot() : this.#now;
    return view instanceof BrokenView ? view.last : view;
  };

  readonly getServerSnapshot = (): V => this.#initial;

  readonly select = <P>(of: (snapshot: V) => P, isEqual?: (one: P, other: P) => boolean): Store<P> => selectFrom(this, of, isEqual);

  get status(): StoreStatus {
    return this.error === undefined ? (this.#shown?.status ?? 'idle') : 'failed';
  }

  /** Known to those who look. */
  get error(): unknown {
    const view = this.#live?.getSnapshot();
    return view instanceof BrokenView ? view.error : undefined;
  }

  take(event: TurnEvent): void {
    if (this.#now instanceof BrokenView) return;
    try {
      this.#now = ask(NAME, 'reduce', this.#reduce, this.#now, event);
    } catch (error) {
      // A view of yours that throws must not end the turn.
      this.#now = new BrokenView(this.#now, error);
    }
    this.#changes.next(this.#now);
  }

  /** The conversation is forgotten. */
  end(): void {
    this.#changes.complete();
  }

  get #live(): Store<V | BrokenView<V>> | undefined {
    return this.#shown?.status === 'idle' ? undefined : this.#shown;
  }
}
