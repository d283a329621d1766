import type { OperatorFunction } from 'rxjs';
import { Observable } from 'rxjs';
import type { BackpressureOptions } from './backpressure.js';
import { boundsOf, evictions, overweight } from './kernel/waiting/bounds.js';
import { ask } from './options/ask.js';
import { CONFLATE_WHILE_BUSY } from './options/defaults.js';
import { checked, oneOf, requiredFunction } from './options/options.js';
import type { Overflow } from './options/types.js';
import { overflowed } from './options/waiting-errors.js';
import { READY_CHECKS, ReadyGate } from './shell/gates/ready-gate.js';

/** @stable */
export interface ConflateWhileBusyOptions<T, A>
  extends Pick<BackpressureOptions<T>, 'ready' | 'maxWeight' | 'weigh' | 'onSourceError' | 'onEvent' | 'name'> {
  /** Makes an aggregate of its first item; also of an item that finds the consumer ready. */
  readonly seed: (item: T) => A;
  /** Makes one aggregate of an aggregate and the next item. */
  readonly merge: (aggregate: A, item: T) => A;
  /**
   * What happens to an item that would make the aggregate heavier than `maxWeight`: `'error'` errors the stream, `'dropOldest'` drops the
   * aggregate and begins a fresh one with the item, `'dropNewest'` drops the item. @defaultValue 'error'
   */
  readonly overflow?: Exclude<Overflow, 'dropLowest' | 'latest'>;
  /**
   * Called with what is dropped for want of room: the aggregate under `'dropOldest'`, the item under `'dropNewest'`, and under both an
   * item that alone is above `maxWeight`, as `'oversize'`. @defaultValue none
   */
  readonly onDrop?: (...dropped: [aggregate: A, policy: 'dropOldest'] | [item: T, policy: 'dropNewest' | 'oversize']) => void;
}

const NAME = 'conflateWhileBusy';

/**
 * Merges what comes while the consumer is busy into one aggregate, and hands that on when it gets ready.
 *
 * ```text marbles/conflateWhileBusy
 * source  -a--b-c-d----e--|
 * ready   t--f------t-----!
 *         conflateWhileBusy({ ready, seed, merge })
 * result  -a--------x--e--|
 *         t = true
 *         f = false
 *         x = "bcd"
 * ```
 *
 * - **Emits when** an item comes and the consumer is ready (`seed` of that item), or when it gets ready and an aggregate waits. Never an
 *   empty aggregate, and never one twice.
 * - **Holds at most** one aggregate, of `maxWeight` weight. What the consumer itself sends in while it is handed one is merged into the next.
 * - **Drops** what `overflow` says; it is reported to `onDrop`, and item by item as events.
 * - **Completes when** the source has completed and no aggregate waits any more.
 * - **Errors when** the source errors (with `onSourceError: 'flush'` after the aggregate), `ready` errors, the aggregate cannot take an item
 *   under `overflow: 'error'` (`OverflowError`, `ItemTooHeavyError`), or a callback throws or returns something unusable (`CallbackError`).
 * - **On unsubscribe** the aggregate is dropped.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is missing, unknown or out of range.
 * @example
 * ```ts
 * import { BehaviorSubject, Subject } from 'rxjs';
 * import { conflateWhileBusy } from 'sluice/operators';
 *
 * const tokens = new Subject<string>();
 * const ready = new BehaviorSubject(true);
 * const drawn: string[] = [];
 * tokens
 *   .pipe(conflateWhileBusy({ ready, seed: (token) => token, merge: (text, token: string) => text + token }))
 *   .subscribe((text) => drawn.push(text));
 * tokens.next('Hel');
 * ready.next(false); // the screen is being drawn
 * tokens.next('lo, ');
 * tokens.next('world');
 * ready.next(true);
 * drawn; // => ['Hel', 'lo, world']
 * ```
 * @see {@link backpressure} when items must stay single. {@link batchMap} when the aggregate is a list and the consumer a call. {@link batch}
 *   when a time or a number decides.
 */
export function conflateWhileBusy<T, A>(options: ConflateWhileBusyOptions<T, A>): OperatorFunction<T, A> {
  const settings = readOptions(options);
  return (source) =>
    new Observable((subscriber) => {
      new Pending(settings, subscriber).listen(source);
    });
}

type Settings<T, A> = ReturnType<typeof readOptions<T, A>>;

function readOptions<T, A>(options: ConflateWhileBusyOptions<T, A>) {
  const settings = checked(NAME, options, CONFLATE_WHILE_BUSY, {
    ...READY_CHECKS,
    seed: requiredFunction,
    merge: requiredFunction,
    overflow: oneOf('error', 'dropOldest', 'dropNewest'),
  });
  return { ...settings, bounds: boundsOf(settings), operator: NAME };
}

/** The one aggregate that waits in one subscription, if any. */
class Pending<T, A> extends ReadyGate<T, A, Settings<T, A>> {
  /** Items that were merged into it. */
  length = 0;
  /** Only when there are any. */
  #aggregate: A | undefined;
  #weight = 0;

  protected pass(item: T): A {
    return ask(NAME, 'seed', this.settings.seed, item);
  }

  /** @throws OverflowError, CallbackError */
  protected hold(item: T, weight: number): void {
    const { merge, bounds } = this.settings;
    const { length } = this;
    const aggregate = this.#aggregate as A;
    const refused = length > 0 ? overweight(bounds, this.#weight + weight) : undefined;
    if (length === 0) {
      this.#hold(this.pass(item), weight, 1);
    } else if (refused === undefined) {
      this.#hold(ask(NAME, 'merge', merge, aggregate, item), this.#weight + weight, length + 1);
    } else if (refused.policy === 'error') {
      throw overflowed(NAME, refused);
    } else if (evictions(refused, 1) > 0) {
      this.#hold(this.pass(item), weight, 1);
      this.drop([aggregate], refused.policy, length);
    } else {
      this.drop([item], refused.policy);
    }
  }

  protected take(): A {
    const aggregate = this.#aggregate as A;
    this.clear();
    return aggregate;
  }

  protected clear(): void {
    this.#hold(undefined, 0, 0);
  }

  #hold(aggregate: A | undefined, weight: number, items: number): void {
    this.#aggregate = aggregate;
    this.#weight = weight;
    this.length = items;
  }
}
