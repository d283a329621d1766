import type { ObservableInput, Subscriber } from 'rxjs';
import { asyncScheduler, from, noop, Observable } from 'rxjs';
import { ask, weightOf } from '../options/ask.js';
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

/** Reports what is given up for want of room, and how many items that is. @throws CallbackError when `onDrop` throws */
export function reportDrops(
  { operator, onDrop, tell }: DropSettings,
  dropped: readonly unknown[],
  policy: string,
  items = dropped.length,
): void {
  for (let n = 0; n < items; n++) tell?.({ type: 'dropped', lane: DEFAULT_LANE, policy });
  if (onDrop) for (const one of dropped) ask(operator, 'onDrop', onDrop as (...args: unknown[]) => void, one, policy);
}

interface ReadySettings<T> extends DropSettings, ListenedOptions {
  readonly ready: ObservableInput<boolean>;
  readonly onSourceError: 'flush' | 'abort';
  readonly maxWeight: number;
  readonly weigh: ((item: T) => number) | undefined;
  readonly overflow: string;
}

/** Hands on what comes from the source while the consumer is ready, and lets it wait while it is not. */
export function whenReady<T, R>(
  source: Observable<T>,
  ready: ObservableInput<boolean>,
  makeGate: (to: Subscriber<R>) => ReadyGate<T, R, ReadySettings<T>>,
): Observable<R> {
  return new Observable((to) => {
    const gate = makeGate(to);
    // `ready` first: a source that emits at once has to know the level. The last level stays.
    connect(from(ready), to, {
      next: (isReady) => {
        gate.level(isReady);
      },
      complete: noop,
    });
    if (!to.closed) connect(source, to, gate);
    // Last, so that nothing comes in any more when it is cleared.
    to.add(() => {
      gate.stop();
    });
  });
}

/**
 * One subscription. Hands on one thing at a time: what comes in meanwhile waits, within the bound of what waits. What comes in while `add`
 * is at work is added after it.
 */
export abstract class ReadyGate<T, R, S extends ReadySettings<T>> implements Handlers<T> {
  protected readonly settings: S & Pick<DropSettings, 'tell'>;
  readonly #to: Subscriber<R>;
  readonly #enqueue: Trampoline;
  #isReady = false;
  #isEmitting = false;
  /** How the source has ended. */
  #end: (() => void) | undefined = undefined;
  #isUrgent = false;

  constructor(settings: S, to: Subscriber<R>) {
    // There is no clock but that of RxJS.
    this.settings = { ...settings, tell: teller(settings.operator, settings, () => asyncScheduler.now()) };
    this.#to = to;
    this.#enqueue = trampoline(to);
  }

  /** Items that wait. */
  abstract readonly length: number;
  /** What comes of an item that need not wait. */
  protected abstract pass(item: T): R;
  /** Takes in an item that has to wait, and could wait alone. Nothing else is called before it has returned. */
  protected abstract add(item: T, weight: number): void;
  /** The next to be handed on; only when there is one. Calls nobody. */
  protected abstract take(): R;
  /** Forgets all that waits. */
  protected abstract clear(): void;
  /** Called after each change, outside of all else: what comes in now is taken in at once. */
  protected changed?(): void;

  level(isReady: boolean): void {
    this.#isReady = isReady;
    this.#drain();
  }

  next(item: T): void {
    if (this.#isReady && !this.#isEmitting && !this.#enqueue.isBusy && this.length === 0) {
      this.#isEmitting = true;
      this.#to.next(this.pass(item));
      this.#isEmitting = false;
    } else {
      this.#enqueue(this.#admit, item);
      this.#settle();
    }
    this.#drain();
  }

  error(error: unknown): void {
    this.#isUrgent = this.settings.onSourceError === 'abort';
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
    if (this.#enqueue.isBusy) return;
    const { length: count } = this;
    this.clear();
    if (count > 0) this.settings.tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count });
    try {
      this.changed?.();
    } catch {
      // There is nobody left to tell that a callback is broken.
    }
  }

  /** One that could not even wait alone is left out, unless that is an error. @throws ItemTooHeavyError, CallbackError */
  readonly #admit = (item: T): void => {
    const { operator, weigh, maxWeight, overflow } = this.settings;
    const weight = weightOf(operator, weigh, item);
    if (weight <= maxWeight) this.add(item, weight);
    else if (overflow === 'error') throw new ItemTooHeavyError(operator, weight, maxWeight);
    else reportDrops(this.settings, [item], 'oversize');
  };

  #drain(): void {
    if (this.#isEmitting || this.#enqueue.isBusy) return;
    this.#isEmitting = true;
    while (this.#isReady && this.length > 0 && !this.#to.closed) {
      this.#to.next(this.take());
      this.#settle();
    }
    this.#isEmitting = false;
    if (this.length === 0 || this.#isUrgent) this.#end?.();
  }

  #settle(): void {
    if (this.#to.closed) this.stop();
    else if (!this.#enqueue.isBusy) this.changed?.();
  }
}
