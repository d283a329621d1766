import type { Observable, Subscriber } from 'rxjs';
import { ask } from '../../options/ask.js';
import type { Note } from '../../options/events.js';
import { DEFAULT_LANE } from '../../options/lanes.js';
import type { Handlers } from '../streams/connect.js';
import { connect } from '../streams/connect.js';

export interface GateSettings {
  readonly operator: string;
  readonly onDrop: ((...dropped: never) => void) | undefined;
  readonly onSourceError: 'flush' | 'abort';
  readonly tell?: ((note: Note) => void) | undefined;
}

/**
 * One subscription of an operator that lets items wait in front of its consumer. Hands on one thing at a time: what comes in meanwhile waits, within
 * the bound of what waits. What comes in while `add` is at work is added after it.
 */
export abstract class Gate<T, R, S extends GateSettings> implements Handlers<T> {
  protected readonly settings: S & Pick<GateSettings, 'tell'>;
  protected readonly to: Subscriber<R>;
  protected isEmitting = false;
  /** What has come in while an item was being taken in. */
  readonly #later: T[] = [];
  protected isAdding = false;
  /** How the source has ended. */
  #end: (() => void) | undefined = undefined;
  #isUrgent = false;

  constructor(settings: S, to: Subscriber<R>) {
    this.settings = settings;
    this.to = to;
  }

  /** Items that wait. */
  abstract readonly length: number;
  /** Takes in an item that has to wait. Nothing else is called before it has returned. */
  protected abstract add(item: T): void;
  /** Whether the next may be handed on now; only when there is one. */
  protected abstract isOpen(): boolean;
  /** Hands on the next. */
  protected abstract handOn(): void;
  /** Forgets all that waits. */
  protected abstract clear(): void;
  /** Called after each change, outside of all else: what comes in now is taken in at once. */
  protected changed?(): void;

  listen(source: Observable<T>): void {
    if (!this.to.closed) connect(source, this.to, this);
    // Last, so that nothing comes in any more when it is cleared.
    this.to.add(() => {
      this.#stop();
    });
  }

  next(item: T): void {
    if (this.isAdding) {
      this.#later.push(item);
      return;
    }
    this.isAdding = true;
    try {
      this.add(item);
      while (this.#later.length > 0) for (const next of this.#later.splice(0)) if (!this.to.closed) this.add(next);
    } catch (error) {
      this.to.error(error);
    }
    this.isAdding = false;
    this.#settle();
    this.drain();
  }

  error(error: unknown): void {
    this.#isUrgent = this.settings.onSourceError === 'abort';
    this.#end = () => {
      this.to.error(error);
    };
    this.drain();
  }

  complete(): void {
    this.#end = () => {
      this.to.complete();
    };
    this.drain();
  }

  /** Reports the items that are dropped for lack of room. @throws CallbackError when `onDrop` throws */
  protected drop(dropped: readonly unknown[], policy: string, items = dropped.length): void {
    const { operator, onDrop, tell } = this.settings;
    for (let n = 0; n < items; n++) tell?.({ type: 'dropped', lane: DEFAULT_LANE, policy });
    if (onDrop) for (const one of dropped) ask(operator, 'onDrop', onDrop as (...args: unknown[]) => void, one, policy);
  }

  /** Hands on what may go. */
  protected drain(): void {
    if (this.isEmitting || this.isAdding) return;
    this.isEmitting = true;
    try {
      while (this.length > 0 && this.isOpen() && !this.to.closed) {
        this.handOn();
        this.#settle();
      }
    } catch (error) {
      this.to.error(error);
    }
    this.isEmitting = false;
    if (this.length === 0 || this.#isUrgent) this.#end?.();
  }

  #settle(): void {
    if (this.to.closed) this.#stop();
    else if (!this.isAdding) this.changed?.();
  }

  /** The consumer has left, or the stream has ended. */
  #stop(): void {
    // In the middle of a callback the queue is about to change: waiting items are discarded when the callback has returned.
    if (this.isAdding) return;
    const { length: count } = this;
    this.clear();
    if (count > 0) this.settings.tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count });
    try {
      this.changed?.();
    } catch {
      // The subscriber has left, so the broken callback cannot be reported to it.
    }
  }
}
