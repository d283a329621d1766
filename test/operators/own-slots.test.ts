import fc from 'fast-check';
import type { OperatorFunction } from 'rxjs';
import { BehaviorSubject, Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Limiter, Settled } from '../../operators/index.js';
import { batchMap, bulkheadMap, classifyError, createLimiter, retryFailed } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';

type Step =
  | { readonly do: 'send'; readonly count: number }
  | { readonly do: 'answer' | 'refuse' | 'fail'; readonly at: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'setLimits'; readonly concurrency: number };

type Slots = { readonly concurrency: number; readonly changes: BehaviorSubject<number> } | { readonly limiter: Limiter };

/** One operator alone on its slots, and a log of what it starts and gives back. */
class Owner {
  readonly log: string[] = [];
  readonly scheduler = new CountingScheduler();
  readonly #items = new Subject<number>();
  readonly #calls: Subject<number[]>[] = [];
  readonly #slots: Slots;
  readonly #subscription;
  #sent = 0;

  constructor(kind: Kind, slots: (scheduler: CountingScheduler) => Slots) {
    this.#slots = slots(this.scheduler);
    const start = (items: readonly number[]) => {
      this.log.push(`${this.scheduler.frame}: starts ${items.join(' ')}`);
      const call = new Subject<number[]>();
      this.#calls.push(call);
      return call;
    };
    this.#subscription = this.#items.pipe(operators[kind](start, this.#slots, this.scheduler)).subscribe({
      next: ({ input, status }) => this.log.push(`${this.scheduler.frame}: ${input} ${status}`),
      error: (error: unknown) => this.log.push(String(error)),
    });
  }

  do(step: Step): void {
    switch (step.do) {
      case 'send':
        for (let i = 0; i < step.count; i++) this.#items.next(this.#sent++);
        break;
      case 'answer':
        this.#calls[step.at]?.next([]);
        this.#calls[step.at]?.complete();
        break;
      case 'refuse':
        this.#calls[step.at]?.error(Object.assign(new Error('slower'), { status: 429, headers: { 'retry-after': '1' } }));
        break;
      case 'fail':
        this.#calls[step.at]?.error(new Error('broken'));
        break;
      case 'setLimits':
        if ('limiter' in this.#slots) this.#slots.limiter.setLimits({ concurrency: step.concurrency });
        else this.#slots.changes.next(step.concurrency);
        break;
      case 'advance':
        this.scheduler.maxFrames = this.scheduler.frame + step.ms;
        this.scheduler.flush();
        this.scheduler.frame = this.scheduler.maxFrames;
    }
  }

  leave(): void {
    this.#subscription.unsubscribe();
    if ('limiter' in this.#slots) this.#slots.limiter.close();
    this.log.push(`${this.scheduler.actions.length} timers`);
  }
}

type Start = (items: readonly number[]) => Subject<number[]>;
type Kind = keyof typeof operators;
const operators = {
  batchMap: (start: Start, slots: Slots, scheduler: CountingScheduler): OperatorFunction<number, Settled<number, unknown>> =>
    batchMap((items: readonly number[]) => start(items), {
      ...('limiter' in slots ? { limiter: slots.limiter } : { concurrency: slots.changes }),
      maxSize: 2,
      random: () => 0.5,
      scheduler,
      repair: retryFailed({ maxAttempts: 2, jitter: 'none', delayMs: 10 }),
      classify: classifyError,
    }),
  bulkheadMap: (start: Start, slots: Slots, scheduler: CountingScheduler): OperatorFunction<number, Settled<number, unknown>> =>
    bulkheadMap((item: number) => start([item]), {
      ...('limiter' in slots ? { limiter: slots.limiter } : { concurrency: slots.concurrency }),
      scheduler,
    }),
};

const at = fc.nat(8);
const steps = (canChange: boolean) =>
  fc.array(
    fc.oneof(
      fc.record({ do: fc.constant('send' as const), count: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ do: fc.constantFrom('answer' as const, 'answer' as const, 'refuse' as const, 'fail' as const), at }),
      fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(0, 1, 10, 1000) }),
      ...(canChange ? [fc.record({ do: fc.constant('setLimits' as const), concurrency: fc.constantFrom(1, 2, 3, Infinity) })] : []),
    ),
    { maxLength: 40, size: 'max' },
  );

describe('an operator with a number for its concurrency', () => {
  it.each([
    ['batchMap', true],
    ['bulkheadMap', false],
  ] as const)('%s does what it does alone on a limiter of that many slots', (kind, canChange) => {
    fc.assert(
      fc.property(steps(canChange), fc.constantFrom(1, 2, Infinity), (script: readonly Step[], concurrency) => {
        const own = new Owner(kind, () => ({ concurrency, changes: new BehaviorSubject(concurrency) }));
        const limited = new Owner(kind, (scheduler) => ({ limiter: createLimiter({ concurrency, scheduler }) }));
        for (const step of script) {
          own.do(step);
          limited.do(step);
          expect(own.log).toEqual(limited.log);
        }
        own.leave();
        limited.leave();
        expect(own.log).toEqual(limited.log);
        expect(own.scheduler.actions).toHaveLength(0);
      }),
      { numRuns: sized(50, 1000) },
    );
  });
});
