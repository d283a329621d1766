import type { Observable } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { Handle, Intake, IntakeOptions, IntakeSnapshot, Settled } from '../../operators/index.js';
import { batchMapFrom, createIntake, lanes } from '../../operators/index.js';
import type { Drained } from '../../operators/options/types.js';

describe('createIntake', () => {
  it('takes items of one type and hands out the same', () => {
    const intake = createIntake<string>();
    expectTypeOf(intake).toEqualTypeOf<Intake<string>>();
    expectTypeOf(intake.offer('a')).toEqualTypeOf<Promise<boolean>>();
    expectTypeOf(intake.tryOffer('a')).toEqualTypeOf<boolean>();
    expectTypeOf(intake.ready$).toEqualTypeOf<Observable<boolean>>();
    expectTypeOf(intake.snapshot()).toEqualTypeOf<IntakeSnapshot>();
    expectTypeOf(intake).toExtend<AsyncIterable<string>>();
    const read = async (): Promise<void> => {
      for await (const item of intake) expectTypeOf(item).toEqualTypeOf<string>();
    };
    expectTypeOf(read).toEqualTypeOf<() => Promise<void>>();
  });

  it('infers the item from `queue`', () => {
    expectTypeOf(
      createIntake({ queue: lanes([{ name: 'now' }], { by: (item: { readonly urgent: boolean }) => String(item.urgent) }) }),
    ).toEqualTypeOf<Intake<{ readonly urgent: boolean }>>();
  });

  it('is what batchMapFrom reads', () => {
    const results = batchMapFrom(createIntake<string>(), (items) => Promise.resolve(items.map((item) => item.length)));
    expectTypeOf(results).toEqualTypeOf<Observable<Settled<string, number>>>();
  });

  it('ends as every handle does', () => {
    const intake = createIntake<string>();
    expectTypeOf(intake).toExtend<Handle>();
    expectTypeOf(intake).toExtend<AsyncDisposable>();
    expectTypeOf(intake.drain({ timeoutMs: 5 })).toEqualTypeOf<Promise<Drained>>();
    expectTypeOf(intake.shutdownOn(new AbortController().signal)).toEqualTypeOf<Intake<string>>();
  });

  it('refuses wrong items and options', () => {
    const intake = createIntake<string>();
    // @ts-expect-error not an item
    void intake.offer(5);
    // @ts-expect-error not a signal
    void intake.offer('a', { signal: new AbortController() });
    // @ts-expect-error not an option of an offer
    void intake.offer('a', { timeoutMs: 5 });
    // @ts-expect-error it is called maxQueued
    createIntake({ capacity: 5 });
    // @ts-expect-error not an option of drain
    void intake.drain({ timeout: 5 });
  });

  it('has readonly options', () => {
    expectTypeOf<IntakeOptions<number>>().toEqualTypeOf<Readonly<IntakeOptions<number>>>();
  });
});
