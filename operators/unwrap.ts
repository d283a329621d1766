import type { OperatorFunction } from 'rxjs';
import { Observable } from 'rxjs';
import type { FlowSink } from './options/events.js';
import { listener } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { oneOf, onlyKnown } from './options/options.js';
import type { Fulfilled, Settled } from './options/types.js';
import { attach } from './shell/streams/connect.js';
import { trampoline } from './shell/streams/trampoline.js';

/** @stable */
export interface UnwrapOptions {
  /** Listener for every failure that `'values'` leaves out (`dropped`). @defaultValue none */
  readonly onEvent?: FlowSink;
}

/**
 * Takes the values out of settled results: without the failures (`'values'`), up to the first failure (`'first'`), or all together or not
 * at all (`'all'`).
 *
 * ```text marbles/unwrap
 * source  -a-B-c-|
 *         unwrap('values')
 * result  -x---z-|
 *         a = {"status":"fulfilled","value":"a!","input":"a","index":0,"id":"a","attempts":1}
 *         B = {"status":"rejected","reason":"Error: the item is bad","input":"B","index":1,"id":"B","attempts":1}
 *         c = {"status":"fulfilled","value":"c!","input":"c","index":2,"id":"c","attempts":1}
 *         x = "a!"
 *         z = "c!"
 * ```
 *
 * - **Emits when** a result with a value arrives; with `'all'` once, when the source completes: the values in the order of their items
 *   (`index`), `[]` for none.
 * - **Holds at most** what the consumer itself sends into the source while it is handed a value; with `'all'` every value, so let the source be a bounded one.
 * - **Drops** failures with `'values'`, and reports them.
 * - **Completes when** the source completes.
 * - **Errors when** the source errors; with `'first'` and `'all'` at the first failure, with its `reason` as the same object. The work
 *   that is still under way is then aborted, because its operator is unsubscribed from.
 * - **On unsubscribe** what it holds is dropped.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `mode` is none of the three or an option is unknown.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { batchMap, unwrap } from 'sluice/operators';
 *
 * const seen: number[][] = [];
 * const lengths = (texts: readonly string[]) => of(texts.map((text) => text.length));
 * of('to', 'them').pipe(batchMap(lengths), unwrap('all')).subscribe((all) => seen.push(all));
 * seen; // => [[2, 4]]
 * ```
 * @see {@link settleAll} when a list of calls should fail as one.
 */
export function unwrap<R>(mode: 'values' | 'first', options?: UnwrapOptions): OperatorFunction<Settled<unknown, R>, R>;
export function unwrap<R>(mode: 'all', options?: UnwrapOptions): OperatorFunction<Settled<unknown, R>, R[]>;
export function unwrap<R>(mode: 'values' | 'first' | 'all', options: UnwrapOptions = {}): OperatorFunction<Settled<unknown, R>, R | R[]> {
  oneOf('values', 'first', 'all')('unwrap', 'mode', mode);
  onlyKnown('unwrap', options, ['onEvent']);
  const onEvent = listener('unwrap', 'onEvent', options.onEvent);
  return (source) =>
    new Observable((subscriber) => {
      const enqueue = trampoline(subscriber);
      const kept: Fulfilled<unknown, R>[] = [];
      const take = (settled: Settled<unknown, R>): void => {
        if (settled.status === 'fulfilled') {
          if (mode === 'all') kept.push(settled);
          else subscriber.next(settled.value);
        } else if (mode === 'values') {
          onEvent?.({ type: 'dropped', operator: 'unwrap', lane: DEFAULT_LANE, policy: 'rejected' });
        } else {
          subscriber.error(settled.reason);
        }
      };
      attach(source, subscriber, {
        next: (settled) => {
          enqueue(take, settled);
        },
        error: (error) => {
          enqueue(() => {
            subscriber.error(error);
          });
        },
        complete: () => {
          enqueue(() => {
            if (mode === 'all') subscriber.next(kept.sort((a, b) => a.index - b.index).map(({ value }) => value));
            subscriber.complete();
          });
        },
      });
    });
}
