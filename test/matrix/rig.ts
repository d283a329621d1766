import type { Observable, Subscription } from 'rxjs';
import { concat, map, NEVER, of, range, Subject as Source, throwError, timer } from 'rxjs';
import { expect } from 'vitest';
import { leakCheck } from '../../marbles/leak-check.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';
import type { Shape, Work } from './shape.js';
import { echo, Failed, fault, never } from './shape.js';

/** Longer than any timer that an operator sets by default, but for the retry of a call. */
const LONG_MS = 120_000;
const LONGEST_TIMER_MS = 2_147_483_647;

/** One run on a virtual clock, with an eye on all that may be left behind. */
export class Run {
  readonly clock = new CountingScheduler();
  readonly out: number[] = [];
  readonly failed: unknown[] = [];
  /** `'complete'`, or the error. */
  readonly ends: unknown[] = [];
  /** Calls of the work, and the signals of those that are not answered at once. */
  calls = 0;
  readonly signals: AbortSignal[] = [];
  readonly #leaks = leakCheck({ scheduler: this.clock });
  #subscription: Subscription | undefined;

  start({ run }: Shape, input: Observable<number>, options: object = {}, work: Work = echo, onItem?: (item: number) => void): void {
    const noted: Work = (item, context) => {
      this.calls++;
      if (work !== echo) this.signals.push(context.signal);
      return work(item, context);
    };
    this.#subscription = run(input, { scheduler: this.clock, ...options }, noted).subscribe({
      next: (items) => {
        for (const item of items) {
          if (item instanceof Failed) this.failed.push(item.reason);
          else this.out.push(item);
          if (!(item instanceof Failed)) onItem?.(item);
        }
      },
      error: (error: unknown) => this.ends.push(error),
      complete: () => this.ends.push('complete'),
    });
  }

  leave(): void {
    this.#subscription?.unsubscribe();
  }

  /** Lets virtual time pass, and every promise settle. */
  async pass(ms = LONG_MS): Promise<void> {
    const until = this.clock.frame + ms;
    for (let i = 0; i < 4; i++) {
      this.clock.maxFrames = until;
      this.clock.flush();
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.clock.frame = until;
  }

  /** Work that takes 10 ms. */
  late: Work = (item) => timer(10, this.clock).pipe(map(() => item));

  left(): readonly string[] {
    return this.#leaks.left();
  }

  stop(): void {
    this.#leaks[Symbol.dispose]();
  }
}

/** Runs the body and looks at what it has left behind. */
async function checked(body: (run: Run) => Promise<unknown>): Promise<void> {
  const run = new Run();
  try {
    await body(run);
    expect(run.left()).toEqual([]);
  } finally {
    run.stop();
  }
}

type Check = () => Promise<void>;

/** A check of your own, on a run that must leave nothing behind. */
export const on =
  (body: (run: Run) => Promise<unknown>): Check =>
  () =>
    checked(body);

/** Three items, then completion. With work that takes its time, nothing is over before it. */
export const completes = (shape: Shape, out: readonly number[] = [1, 2, 3], options: object = {}): Check =>
  on(async (run) => {
    run.start(shape, of(1, 2, 3), options, run.late);
    await run.pass(5);
    if (run.calls > 0) expect(run.ends).toEqual([]);
    await run.pass();
    expect(run.out).toEqual(out);
    expect(run.ends).toEqual(['complete']);
  });

/** Three items, then an error: what still comes out, the same error, and every call stopped. */
export const errors = (shape: Shape, out: readonly number[] = [], options: object = {}): Check =>
  on(async (run) => {
    run.start(
      shape,
      concat(
        of(1, 2, 3),
        throwError(() => fault),
      ),
      { ...shape.holding, ...options },
      never,
    );
    await run.pass();
    expect(run.out).toEqual(out);
    expect(run.ends).toHaveLength(1);
    expect(run.ends[0]).toBe(fault);
    expect(run.signals.filter(({ aborted }) => !aborted)).toEqual([]);
  });

/** Three items are kept or worked on when the consumer leaves: nothing more comes out, and every call is stopped at once. */
export const leaves = (shape: Shape, options: object = {}): Check =>
  on(async (run) => {
    run.start(shape, concat(of(1, 2, 3), NEVER), { ...shape.holding, ...options }, never);
    await run.pass(5);
    const { length } = run.out;
    const { calls } = run;
    run.leave();
    expect(run.signals.filter(({ aborted }) => !aborted)).toEqual([]);
    expect(run.clock.actions.length).toBe(0);
    await run.pass();
    expect([run.out.length, run.calls]).toEqual([length, calls]);
    expect(run.ends).toEqual([]);
  });

/** A consumer that answers every item with the next one. */
export const reenters = (shape: Shape, options: object = {}): Check =>
  on(async (run) => {
    const most = 3000;
    const source = new Source<number>();
    run.start(shape, source, options, echo, (item) => {
      if (item < most) source.next(item + 1);
    });
    // What is read is only subscribed to with the first read.
    await run.pass(0);
    source.next(1);
    // One item in every window: far more of them than the longest timer.
    for (let i = 0; i < 100 && run.out.length < most; i++) await run.pass();
    source.complete();
    await run.pass();
    expect(run.out).toEqual(Array.from({ length: most }, (_, i) => i + 1));
    expect(run.ends).toEqual(['complete']);
  });

/** A part of it is enough to see a stack that grows. */
export const MILLION = sized(20_000, 1_000_000);

/** A million items in one go: how many come out, and how it ends. */
export const takesMillion = (shape: Shape, options: object = {}, out = MILLION): Check =>
  on(async (run) => {
    run.start(shape, range(1, MILLION), options);
    await run.pass();
    expect(run.ends).toEqual(['complete']);
    expect(run.out.length).toBe(out);
    expect(run.out.at(-1)).toBe(MILLION);
  });

/** More than the queue may hold while nothing is over: one too many is told so. */
export const overflows = (shape: Shape, bound: number): Check =>
  on(async (run) => {
    run.start(shape, range(1, 3 * bound), shape.holding, never);
    await run.pass(5);
    expect([...run.failed, ...run.ends][0]).toMatchObject({ code: 'FLOW_OVERFLOW', limit: bound });
    run.leave();
  });

/** What may be without limit, without limit: nothing waits for a timer that cannot be set. */
export const unlimited = (shape: Shape, options: Readonly<Record<string, unknown>>, out: readonly number[] = [1, 2, 3]): Check =>
  on(async (run) => {
    run.start(shape, of(1, 2, 3), options);
    await run.pass();
    expect(run.clock.delays.filter((ms) => !(ms >= 0 && ms <= LONGEST_TIMER_MS))).toEqual([]);
    expect(run.out).toEqual(out);
  });

/** The reasons of failed items, or the end, in a word each. */
export function reasonsOf({ failed, ends }: Run): unknown[] {
  return [...failed, ...ends].map((reason) => (reason === 'complete' ? reason : (reason as { readonly name: string }).name));
}
