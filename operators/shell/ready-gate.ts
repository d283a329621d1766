import type { ObservableInput, Subscriber } from 'rxjs';
import { asyncScheduler, from, Observable } from 'rxjs';
import { ask } from '../options/ask.js';
import { FlowConfigError, ItemTooHeavyError } from '../options/errors.js';
import type { ListenedOptions, Note } from '../options/events.js';
import { EVENT_CHECKS, teller } from '../options/events.js';
import { DEFAULT_LANE } from '../options/lanes.js';
import { callback, oneOf, positive } from '../options/options.js';
import type { Handlers } from './connect.js';
import { connect } from './connect.js';
import { stream } from './notifier.js';
import type { Trampoline } from './trampoline.js';
import { trampoline } from './trampoline.js';

export const READY_DEFAULTS = { maxWeight: Infinity, onSourceError: 'abort' } as const;

/** The checks of these options, and of `onDrop`. */
export const READY_CHECKS = /* @__PURE__ */ (() => ({
  ready: levels,
  maxWeight: positive,
  weigh: callback,
  onSourceError: /* @__PURE__ */ oneOf('flush', 'abort'),
  onDrop: callback,
  ...EVENT_CHECKS,
}))();

function levels(operator: string, option: string, ready: ObservableInput<boolean>): Observable<boolean> {
  // A text is an iterable too, but not one of levels.
  if (typeof ready === 'string') throw new FlowConfigError(operator, option, 'an Observable, promise or iterable of booleans', ready);
  return stream(operator, option, ready);
}

interface DropSettings {
  readonly operator: string;
  readonly onDrop: ((...dropped: never) => void) | undefined;
  readonly tell?: ((note: Note) => void) | undefined;
}

/** Who tells the events of one subscription. There is no clock but that of RxJS. */
export function withTeller<S extends ListenedOptions & { readonly operator: string }>(settings: S): S & Pick<DropSettings, 'tell'> {
  return { ...settings, tell: teller(settings.operator, settings, () => asyncScheduler.now()) };
}

/** Reports what is given up for want of room, and how many items that is. @throws CallbackError when `onDrop` throws */
export function reportDrop({ operator, onDrop, tell }: DropSettings, dropped: unknown, policy: string, items = 1): void {
  for (let n = 0; n < items; n++) tell?.({ type: 'dropped', lane: DEFAULT_LANE, policy });
  if (onDrop) ask(operator, 'onDrop', onDrop as (...args: unknown[]) => void, dropped, policy);
}

/** True for an item that could not even wait alone; it is left out, unless that is an error. @throws ItemTooHeavyError */
export function isTooHeavy(
  settings: DropSettings & { readonly maxWeight: number; readonly overflow: string },
  item: unknown,
  weight: number,
): boolean {
  if (weight <= settings.maxWeight) return false;
  if (settings.overflow === 'error') throw new ItemTooHeavyError(settings.operator, weight, settings.maxWeight);
  reportDrop(settings, item, 'oversize');
  return true;
}

/** What an operator does with the items that wait while the consumer is not ready. */
export interface ReadyBuffer<T, R> {
  readonly isEmpty: boolean;
  /** What comes of an item that need not wait. */
  pass(item: T): R;
  /** Takes in an item that has to wait. Nothing else is called before it has returned. */
  add(item: T): void;
  /** The next to be handed on; only when there is one. Calls nobody. */
  take(): R;
  /** Called after each change, outside of all else: what comes in now is taken in at once. */
  changed?(): void;
  /** Gives up everything. Must not throw. */
  clear(): void;
}

/** Hands on what comes from the source while the consumer is ready, and lets it wait while it is not. */
export function whenReady<T, R>(
  source: Observable<T>,
  { ready, onSourceError }: { readonly ready: ObservableInput<boolean>; readonly onSourceError: 'flush' | 'abort' },
  waiting: () => ReadyBuffer<T, R>,
): Observable<R> {
  return new Observable((subscriber) => {
    const kept = waiting();
    const gate = new ReadyGate(kept, onSourceError === 'abort', subscriber);
    // `ready` first: a source that emits at once has to know the level.
    connect(from(ready), subscriber, {
      next: (isReady) => {
        gate.level(isReady);
      },
      complete: () => {
        // The last level stays.
      },
    });
    if (!subscriber.closed) connect(source, subscriber, gate);
    // Last, so that nothing comes in any more when it is cleared.
    subscriber.add(() => {
      gate.stop();
    });
  });
}

/**
 * One subscription. Hands on one thing at a time: what comes in meanwhile waits, within the bound of what waits. What comes in while `add`
 * is at work is added after it.
 */
class ReadyGate<T, R> implements Handlers<T> {
  readonly #waiting: ReadyBuffer<T, R>;
  readonly #aborts: boolean;
  readonly #to: Subscriber<R>;
  readonly #enqueue: Trampoline;
  #isReady = false;
  #isEmitting = false;
  /** How the source has ended. */
  #end: (() => void) | undefined;
  #isUrgent = false;

  constructor(waiting: ReadyBuffer<T, R>, aborts: boolean, to: Subscriber<R>) {
    this.#waiting = waiting;
    this.#aborts = aborts;
    this.#to = to;
    this.#enqueue = trampoline(to);
  }

  level(isReady: boolean): void {
    this.#isReady = isReady;
    this.#drain();
  }

  next(item: T): void {
    if (this.#isReady && !this.#isEmitting && !this.#enqueue.isBusy && this.#waiting.isEmpty) {
      this.#isEmitting = true;
      this.#to.next(this.#waiting.pass(item));
      this.#isEmitting = false;
    } else {
      this.#enqueue(() => {
        this.#waiting.add(item);
      });
      this.#settle();
    }
    this.#drain();
  }

  error(error: unknown): void {
    this.#isUrgent = this.#aborts;
    this.#end = () => {
      this.#to.error(error);
    };
    this.#drain();
  }

  complete(): void {
    this.#end = () => {
      this.#to.complete();
    };
    this.#drain();
  }

  /** The consumer has left, or the stream has ended. */
  stop(): void {
    // In the middle of a callback what waits is about to change: it is given up when the callback has returned.
    if (!this.#enqueue.isBusy) this.#waiting.clear();
  }

  #drain(): void {
    if (this.#isEmitting || this.#enqueue.isBusy) return;
    this.#isEmitting = true;
    while (this.#isReady && !this.#waiting.isEmpty && !this.#to.closed) {
      this.#to.next(this.#waiting.take());
      this.#settle();
    }
    this.#isEmitting = false;
    if (this.#waiting.isEmpty || this.#isUrgent) this.#end?.();
  }

  #settle(): void {
    if (this.#enqueue.isBusy) return;
    if (this.#to.closed) this.#waiting.clear();
    else this.#waiting.changed?.();
  }
}
