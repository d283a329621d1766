import { Subject } from 'rxjs';

/** Who wants to know of something. What they throw is reported, and keeps nobody else from hearing it. */
export class Audience<V> {
  private readonly to = new Subject<V>();

  get isThere(): boolean {
    return this.to.observed;
  }

  listen(listener: (value: V) => void): () => void {
    // eslint-disable-next-line rxjs-x/no-ignored-error -- it has no end
    const subscription = this.to.subscribe({ next: listener });
    return () => {
      subscription.unsubscribe();
    };
  }

  tell(value: V): void {
    this.to.next(value);
  }
}
