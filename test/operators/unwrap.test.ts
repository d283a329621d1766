import fc from 'fast-check';
import { from, Observable, of, Subject, take } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent, Settled } from '../../operators/index.js';
import { batchMap, unwrap } from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';

const result = (index: number, isGood: boolean): Settled<number, number> => {
  const origin = { input: index, index, id: String(index), attempts: 1 };
  return isGood
    ? { status: 'fulfilled', value: index * 10, ...origin }
    : { status: 'rejected', reason: new Error(`item ${String(index)}`), ...origin };
};

function watch<R>(stream: Observable<R>) {
  const values: R[] = [];
  const errors: unknown[] = [];
  let completed = false;
  stream.subscribe({
    next: (value) => values.push(value),
    error: (error: unknown) => errors.push(error),
    complete: () => (completed = true),
  });
  return { values, errors, completed };
}

describe('unwrap', () => {
  it('keeps values, their order and the first failure, for any results', () => {
    const results = fc.array(fc.boolean(), { maxLength: 12 }).chain((goods) =>
      fc.shuffledSubarray(
        goods.map((good, index) => result(index, good)),
        { minLength: goods.length },
      ),
    );
    fc.assert(
      fc.property(results, (given) => {
        const good = given.flatMap((settled) => (settled.status === 'fulfilled' ? [settled] : []));
        const bad = given.find((settled) => settled.status === 'rejected');
        const before = bad === undefined ? given.length : given.indexOf(bad);
        const values = watch(from(given).pipe(unwrap('values')));
        expect(values).toEqual({ values: good.map(({ value }) => value), errors: [], completed: true });
        const first = watch(from(given).pipe(unwrap('first')));
        expect(first.values).toEqual(given.slice(0, before).flatMap((settled) => (settled.status === 'fulfilled' ? [settled.value] : [])));
        const all = watch(from(given).pipe(unwrap('all')));
        expect(all.values).toEqual(bad ? [] : [good.map(({ value }) => value).sort((a, b) => a - b)]);
        for (const { errors } of [first, all]) {
          expect(errors).toHaveLength(bad ? 1 : 0);
          if (bad) expect(errors[0]).toBe(bad.reason);
        }
      }),
      { seed: 1 },
    );
  });

  it('aborts the work that is still under way at the first failure', () => {
    const signals: AbortSignal[] = [];
    const { errors } = watch(
      of('slow', 'bad').pipe(
        batchMap(
          ([text], { signal }) => {
            signals.push(signal);
            return new Observable<string[]>((subscriber) => {
              if (text === 'bad') subscriber.error(Object.assign(new Error('bad'), { status: 401 }));
            });
          },
          { maxSize: 1, scheduler: atOnce() },
        ),
        unwrap('first'),
      ),
    );
    expect(errors).toMatchObject([{ status: 401 }]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it('reports what it leaves out', () => {
    const events: FlowEvent[] = [];
    from([result(0, false), result(1, true)])
      .pipe(unwrap('values', { onEvent: (event) => events.push(event) }))
      .subscribe();
    expect(events).toEqual([{ type: 'dropped', operator: 'unwrap', lane: 'default', policy: 'rejected' }]);
  });

  it('does not recurse when the consumer answers every value with the next result', () => {
    const source = new Subject<Settled<number, number>>();
    let last = 0;
    source.pipe(unwrap('values')).subscribe((value) => {
      last = value / 10;
      if (last < 1e5) source.next(result(last + 1, true));
    });
    source.next(result(1, true));
    expect(last).toBe(1e5);
  });

  it('emits the results that came before the end, also when a subscriber causes the end', () => {
    const source = new Subject<Settled<number, number>>();
    const seen: unknown[] = [];
    const fault = new Error('the end');
    source.pipe(unwrap('values')).subscribe({
      next: (value) => {
        seen.push(value);
        if (value !== 0) return;
        source.next(result(1, true));
        source.error(fault);
      },
      error: (error: unknown) => seen.push(error),
    });
    source.next(result(0, true));
    expect(seen).toEqual([0, 10, fault]);
  });

  it('does nothing with what is left when the consumer leaves while it is handed a value', () => {
    const source = new Subject<Settled<number, number>>();
    const events: FlowEvent[] = [];
    const subscription = source.pipe(unwrap('values', { onEvent: (event) => events.push(event) })).subscribe(() => {
      source.next(result(1, false));
      subscription.unsubscribe();
    });
    source.next(result(0, true));
    expect(events).toEqual([]);
  });

  it('leaves its source when the consumer has enough', () => {
    const source = new Subject<Settled<number, number>>();
    source.pipe(unwrap('values'), take(1)).subscribe();
    source.next(result(0, true));
    expect(source.observed).toBe(false);
  });
});
