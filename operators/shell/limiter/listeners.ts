import { Subject } from 'rxjs';

/** Listeners to one kind of notification. What a listener throws is reported, and the others are still called. */
export class Listeners<V> {
  private readonly to = new Subject<V>();

  get observed(): boolean {
    return this.to.observed;
  }

  /** Adds a listener; the returned function removes it. */
  add(listener: (value: V) => void): () => void {
    // eslint-disable-next-line rxjs-x/no-ignored-error -- it has no end
    const subscription = this.to.subscribe({ next: listener });
    return () => {
      subscription.unsubscribe();
    };
  }

  emit(value: V): void {
    this.to.next(value);
  }
}
