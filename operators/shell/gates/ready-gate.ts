import type { Observable, ObservableInput, Subscriber } from 'rxjs';
import { asyncScheduler, from, noop } from 'rxjs';
import type { Bounds } from '../../kernel/waiting/bounds.js';
import { overweight } from '../../kernel/waiting/bounds.js';
import { weightOf } from '../../options/ask.js';
import { FlowConfigError, ItemTooHeavyError } from '../../options/errors.js';
import type { ListenedOptions } from '../../options/events.js';
import { EVENT_CHECKS, teller } from '../../options/events.js';
import { callback, oneOf, positive } from '../../options/options.js';
import { connect } from '../streams/connect.js';
import { stream } from '../streams/notifier.js';
import type { GateSettings } from './gate.js';
import { Gate } from './gate.js';

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

interface ReadySettings<T> extends GateSettings, ListenedOptions {
  readonly ready: ObservableInput<boolean>;
  readonly weigh: ((item: T) => number) | undefined;
  readonly bounds: Bounds;
}

/** One subscription. Hands on what comes from the source while the consumer is ready, and lets it wait while it is not. */
export abstract class ReadyGate<T, R, S extends ReadySettings<T>> extends Gate<T, R, S> {
  #isReady = false;

  constructor(settings: S, to: Subscriber<R>) {
    // There is no clock but that of RxJS.
    super({ ...settings, tell: teller(settings.operator, settings, () => asyncScheduler.now()) }, to);
  }

  /** What comes of an item that need not wait. */
  protected abstract pass(item: T): R;
  /** Takes in an item that has to wait, and could wait alone. */
  protected abstract hold(item: T, weight: number): void;
  /** Takes out the next item to be handed on. Calls neither callbacks nor listeners. */
  protected abstract take(): R;

  override listen(source: Observable<T>): void {
    // First: a source that emits at once has to know the level. The last level stays.
    connect(from(this.settings.ready), this.to, {
      next: (isReady) => {
        this.#isReady = isReady;
        this.drain();
      },
      complete: noop,
    });
    super.listen(source);
  }

  override next(item: T): void {
    if (!this.#isReady || this.isEmitting || this.isAdding || this.length > 0) {
      super.next(item);
      return;
    }
    this.isEmitting = true;
    this.to.next(this.pass(item));
    this.isEmitting = false;
    this.drain();
  }

  protected isOpen(): boolean {
    return this.#isReady;
  }

  protected handOn(): void {
    this.to.next(this.take());
  }

  /** One that could not even wait alone is left out, unless that is an error. @throws ItemTooHeavyError, CallbackError */
  protected add(item: T): void {
    const { operator, weigh, bounds } = this.settings;
    const weight = weightOf(operator, weigh, item);
    const refused = overweight(bounds, weight);
    if (refused === undefined) this.hold(item, weight);
    else if (refused.policy === 'error') throw new ItemTooHeavyError(operator, weight, refused.limit);
    else this.drop([item], 'oversize');
  }
}
