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
import type { InTurn } from './in-turn.js';
import { inTurn } from './in-turn.js';
import { stream } from './notifier.js';

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
export function tellerOf<S extends ListenedOptions & { readonly operator: string }>(settings: S): S & Pick<DropSettings, 'tell'> {
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

/** What waits for the consumer, in one subscription. */
export interface Waiting<T, R> {
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
  waiting: () => Waiting<T, R>,
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
  readonly #waiting: Waiting<T, R>;
  readonly #aborts: boolean;
  readonly #to: Subscriber<R>;
  readonly #turn: InTurn;
  #isReady = false;
  #isHanding = false;
  /** How the source has ended. */
  #end: (() => void) | undefined;
  #isUrgent = false;

  constructor(waiting: Waiting<T, R>, aborts: boolean, to: Subscriber<R>) {
    this.#waiting = waiting;
    this.#aborts = aborts;
    this.#to = to;
    this.#turn = inTurn(to);
  }

  level(isReady: boolean): void {
    this.#isReady = isReady;
    this.#drain();
  }

  next(item: T): void {
    if (this.#isReady && !this.#isHanding && !this.#turn.isBusy && this.#waiting.isEmpty) {
      this.#isHanding = true;
      this.#to.next(this.#waiting.pass(item));
      this.#isHanding = false;
    } else {
      this.#turn(() => {
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
    if (!this.#turn.isBusy) this.#waiting.clear();
  }

  #drain(): void {
    if (this.#isHanding || this.#turn.isBusy) return;
    this.#isHanding = true;
    while (this.#isReady && !this.#waiting.isEmpty && !this.#to.closed) {
      this.#to.next(this.#waiting.take());
      this.#settle();
    }
    this.#isHanding = false;
    if (this.#waiting.isEmpty || this.#isUrgent) this.#end?.();
  }

  #settle(): void {
    if (this.#turn.isBusy) return;
    if (this.#to.closed) this.#waiting.clear();
    else this.#waiting.changed?.();
  }
}
