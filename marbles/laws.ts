import type { OperatorFunction } from 'rxjs';
import { concat, config, NEVER, Observable, of, Subject, take, throwError } from 'rxjs';
import { isFlowError } from '../operators/options/errors.js';
import type { FlowSink } from '../operators/options/events.js';
import { leakCheck } from './leak-check.js';
import type { VirtualClock } from './virtual.js';
import { virtualTime } from './virtual.js';

/** Longer than any timer of an instance under test, in virtual ms. */
const LONG_MS = 60_000;

/** Enough items to overflow the stack of an operator that recurses. */
const MANY = 10_000;

/**
 * One operator as the laws see it: an ordinary instance over numbers, and what its emissions mean.
 * @beta
 */
export interface LawSubject<R = unknown> {
  /** Name of the operator, as exported. */
  readonly operator: string;
  /** An ordinary instance. Every call makes a new one. */
  readonly create: (hooks?: { readonly onEvent?: FlowSink }) => OperatorFunction<number, R>;
  /** The input items one emission carries, oldest first. */
  itemsOf(emission: R): readonly number[];
  /** Most items accepted and not yet emitted; the bound of the doc comment's "Holds at most", for this instance. */
  readonly holdsAtMost: number;
  /** True when items may come out in another order than they went in. */
  readonly reorders?: true;
  /** True when items are dropped by design (the newest wins, a sample is taken). */
  readonly lossy?: true;
  /** For each callback option: an instance that calls `fault` in it. */
  readonly throwing?: Readonly<Record<string, (fault: () => never) => OperatorFunction<number, R>>>;
  /** The error of an emission that stands for a failed item, for operators whose throwing callbacks reject the item instead of the stream. */
  rejectionOf?(emission: R): unknown;
  /** For operators that hand out an AbortSignal: an instance whose work never ends and shows its signal to `seen`. */
  readonly abortable?: (seen: (signal: AbortSignal) => void) => OperatorFunction<number, R>;
}

/** A rule every operator obeys. */
export interface Law {
  readonly title: string;
  /** False when the law has nothing to say about the operator. */
  readonly appliesTo: (subject: LawSubject) => boolean;
  /** @throws LawBrokenError when the operator breaks the law. */
  readonly check: (subject: LawSubject) => void;
}

export class LawBrokenError extends Error {
  override readonly name = 'LawBrokenError';
  constructor(
    readonly operator: string,
    readonly law: string,
    problem: string,
    cause?: unknown,
  ) {
    super(`${operator} breaks the law "${law}": ${problem}`, { cause });
  }
}

/**
 * Every law, in the order a reader would want them to fail. {@link checkLaws} applies them all; take the list for a test per law.
 */
export const laws: readonly Law[] = [
  law('leaves nothing behind on NEVER', ({ subject, clock, demand }) => {
    for (const items of [[], [1], [1, 2, 3]]) {
      for (const waitMs of [0, 1, LONG_MS]) {
        using leaks = leakCheck({ scheduler: clock.scheduler });
        const source = leaks.watch('the source', concat(of(...items), NEVER));
        const subscription = source.pipe(subject.create()).subscribe();
        clock.advance(waitMs);
        subscription.unsubscribe();
        const left = leaks.left();
        demand(left.length === 0, `${left.join('; ')} left ${String(items.length)} item(s) and ${String(waitMs)} ms after the start`);
      }
    }
  }),

  law('forwards the source error as the same object', ({ subject, clock, demand }) => {
    const fault = new Error('the fault of the source');
    for (const items of [[], [1], [1, 2, 3]]) {
      const { errors } = watch(
        concat(
          of(...items),
          throwError(() => fault),
        ).pipe(subject.create()),
      );
      clock.flush();
      const when = `after ${String(items.length)} item(s)`;
      demand(errors.length === 1, `the result errored ${String(errors.length)} times ${when}`);
      demand(errors[0] === fault, `the result errored with something else ${when}: ${String(errors[0])}`);
    }
  }),

  law('stops a synchronous source once the consumer has enough', ({ subject, clock, demand }) => {
    let sent = 0;
    let sentAtFirst = 0;
    const source = new Observable<number>((subscriber) => {
      for (; sent < MANY && !subscriber.closed; sent++) subscriber.next(sent);
      subscriber.complete();
    });
    const { emissions } = watch(source.pipe(subject.create(), take(1)), () => (sentAtFirst = sent));
    clock.flush();
    demand(emissions.length === 1, `nothing came out of a source of ${String(MANY)} items`);
    demand(sent <= sentAtFirst + 1, `the source went on from item ${String(sentAtFirst)} to ${String(sent)} after the consumer had left`);
  }),

  law('keeps no state between subscriptions', ({ subject, clock, demand }) => {
    const operator = subject.create();
    const source = new Observable<number>((subscriber) => {
      subscriber.next(1);
      subscriber.next(2);
      subscriber.next(3);
      subscriber.complete();
    });
    const results = source.pipe(operator);
    const alone = watch(results);
    clock.flush();
    const left = watch(results.pipe(take(1)));
    clock.flush();
    const again = watch(results);
    const besides = watch(source.pipe(operator));
    clock.flush();
    const wanted = JSON.stringify(alone.emissions);
    demand(alone.completed(), 'the first subscription did not complete');
    demand(left.emissions.length <= 1, 'a consumer that takes one got more');
    for (const other of [again, besides]) {
      demand(JSON.stringify(other.emissions) === wanted, `first ${wanted}, later ${JSON.stringify(other.emissions)}`);
      demand(other.completed(), 'a later subscription did not complete');
    }
  }),

  law('is silent after a terminal notification', ({ subject, clock, demand }) => {
    for (const kind of ['complete', 'error'] as const) {
      const source = new Subject<number>();
      const late = hearStopped(() => {
        const { errors, ended } = watch(source.pipe(subject.create()));
        source.next(1);
        if (kind === 'complete') source.complete();
        else source.error(new Error('the end'));
        clock.flush();
        demand(ended(), `did not end after the source's ${kind}`);
        demand(kind === 'complete' || errors.length === 1, 'completed although the source errored');
      });
      demand(late === 0, `sent ${String(late)} notification(s) after the end, the source's ${kind}`);
      demand(!source.observed, `the source is still subscribed to after its ${kind}`);
    }
  }),

  law(
    'turns a throwing callback into an error',
    ({ subject, clock, demand }) => {
      for (const [name, create] of Object.entries(subject.throwing ?? {})) {
        const fault = new Error(`the fault of ${name}`);
        const operator = create(() => {
          throw fault;
        });
        const { emissions, errors, subscription } = watch(concat(of(1, 2, 3), NEVER).pipe(operator));
        clock.advance(LONG_MS);
        subscription.unsubscribe();
        const rejections = emissions.map((emission) => subject.rejectionOf?.(emission)).filter((reason) => reason !== undefined);
        const [error] = subject.rejectionOf === undefined ? errors : rejections;
        demand(error !== undefined, `a throw in \`${name}\` was swallowed`);
        demand(isFlowError(error, 'FLOW_CALLBACK'), `a throw in \`${name}\` came out as ${String(error)}, not as a CallbackError`);
        demand((error as Error).cause === fault, `the CallbackError of \`${name}\` does not carry what was thrown as its cause`);
      }
    },
    (subject) => subject.throwing !== undefined,
  ),

  law('keeps order and loses nothing when the consumer feeds the source', ({ subject, clock, demand }) => {
    const source = new Subject<number>();
    const seen: number[] = [];
    const burst = Math.min(subject.holdsAtMost, 8);
    let sent = 0;
    const { errors } = watch(source.pipe(subject.create()), (emission) => {
      seen.push(...subject.itemsOf(emission));
      // Whenever nothing is under way any more: a burst from inside the emission.
      if (seen.length < sent) return;
      for (let i = 0; i < burst && sent < MANY; i++) source.next(sent++);
    });
    source.next(sent++);
    clock.flush();
    source.complete();
    clock.flush();
    demand(errors.length === 0, `errored: ${String(errors[0])}`);
    demand(new Set(seen).size === seen.length, 'an item came out twice');
    demand(
      subject.lossy === true || (sent === MANY && seen.length === MANY),
      `of ${String(sent)} items sent, ${String(seen.length)} came out`,
    );
    const disorder = seen.findIndex((item, index) => index > 0 && item < (seen[index - 1] ?? item));
    demand(
      subject.reorders === true || disorder === -1,
      `item ${String(seen[disorder])} came out after item ${String(seen[disorder - 1])}`,
    );
  }),

  law('holds no more than it says', ({ subject, clock, demand }) => {
    demand(Number.isFinite(subject.holdsAtMost), 'its bound is not finite');
    const source = new Subject<number>();
    let delivered = 0;
    let dropped = 0;
    const operator = subject.create({ onEvent: (event) => (dropped += event.type === 'dropped' ? 1 : 0) });
    const { errors } = watch(source.pipe(operator), (emission) => (delivered += subject.itemsOf(emission).length));
    const many = 3 * subject.holdsAtMost + 10;
    for (let sent = 1; sent <= many && errors.length === 0; sent++) {
      source.next(sent);
      const held = sent - delivered - dropped;
      demand(held <= subject.holdsAtMost, `holds ${String(held)} of ${String(sent)} items, says at most ${String(subject.holdsAtMost)}`);
    }
    source.complete();
    clock.flush();
    demand(
      errors.length > 0 || delivered + dropped === many,
      `of ${String(many)} items, ${String(delivered + dropped)} were emitted or reported dropped`,
    );
  }),

  law(
    'aborts every call once, when the consumer leaves',
    ({ subject, clock, demand }) => {
      const signals: { readonly signal: AbortSignal; aborts: number }[] = [];
      const operator = subject.abortable?.((signal) => {
        const entry = { signal, aborts: 0 };
        signals.push(entry);
        signal.addEventListener('abort', () => (entry.aborts += 1));
      });
      const { subscription } = watch(concat(of(1, 2, 3), NEVER).pipe(operator ?? subject.create()));
      clock.advance(LONG_MS);
      demand(signals.length > 0, 'no work was started');
      demand(
        signals.every(({ signal }) => !signal.aborted),
        'a signal aborted while the consumer was still there',
      );
      subscription.unsubscribe();
      demand(
        signals.every(({ aborts }) => aborts === 1),
        'a signal was not aborted by the time `unsubscribe` returned',
      );
      demand(
        signals.every(({ signal }) => isAbortError(signal.reason)),
        'a signal aborted with something else than a DOMException named AbortError',
      );
      clock.flush();
      demand(
        signals.every(({ aborts }) => aborts === 1),
        'a signal was aborted more than once',
      );
    },
    (subject) => subject.abortable !== undefined,
  ),
];

/**
 * Holds an operator, yours or ours, against every law that has something to say about it.
 *
 * @beta
 * @returns the titles of the laws it was held against.
 * @throws LawBrokenError for the law it breaks, or an AggregateError of several.
 * @example
 * ```ts
 * import { map } from 'rxjs';
 * import { checkLaws } from 'sluice/marbles';
 * import { batch } from 'sluice/operators';
 *
 * const pairs = { operator: 'pairs', create: () => batch<number>({ maxSize: 2 }), itemsOf: (items: number[]) => items, holdsAtMost: 2 };
 * checkLaws(pairs).length; // => 7
 *
 * let count = 0; // outside of the subscription: the second subscriber starts where the first has left off
 * const numbered = { operator: 'numbered', create: () => map((n: number) => n + count++), itemsOf: (n: number) => [n], holdsAtMost: 1 };
 * let broken = '';
 * try {
 *   checkLaws(numbered);
 * } catch (error) {
 *   broken = (error as Error).message;
 * }
 * broken.includes('keeps no state between subscriptions'); // => true
 * ```
 */
export function checkLaws(subject: LawSubject): readonly string[] {
  const applied = laws.filter((each) => each.appliesTo(subject));
  const broken = applied.flatMap((each) => {
    try {
      each.check(subject);
      return [];
    } catch (error) {
      return [error as LawBrokenError];
    }
  });
  if (broken.length > 1) throw new AggregateError(broken, broken.map(({ message }) => message).join('\n'));
  if (broken[0] !== undefined) throw broken[0];
  return applied.map(({ title }) => title);
}

interface Trial {
  readonly subject: LawSubject;
  readonly clock: VirtualClock;
  readonly demand: (condition: boolean, problem: string) => void;
}

function law(title: string, check: (trial: Trial) => void, appliesTo: Law['appliesTo'] = () => true): Law {
  return {
    title,
    appliesTo,
    check: (subject) => {
      const broken = (problem: string, cause?: unknown): LawBrokenError => new LawBrokenError(subject.operator, title, problem, cause);
      try {
        virtualTime((clock) => {
          check({
            subject,
            clock,
            demand: (condition, problem) => {
              if (!condition) throw broken(problem);
            },
          });
        });
      } catch (error) {
        throw error instanceof LawBrokenError ? error : broken(String(error), error);
      }
    },
  };
}

/** Subscribes, and keeps what comes out. */
function watch<R>(result: Observable<R>, onNext?: (emission: R) => void) {
  const emissions: R[] = [];
  const errors: unknown[] = [];
  let completed = false;
  const subscription = result.subscribe({
    next: (emission) => {
      emissions.push(emission);
      onNext?.(emission);
    },
    error: (error: unknown) => {
      errors.push(error);
    },
    complete: () => {
      completed = true;
    },
  });
  return { emissions, errors, completed: () => completed, ended: () => completed || errors.length > 0, subscription };
}

/** Counts the notifications that were sent to a subscriber which had ended already; RxJS hides them otherwise. */
function hearStopped(during: () => void): number {
  const before = config.onStoppedNotification;
  let heard = 0;
  config.onStoppedNotification = () => {
    heard += 1;
  };
  try {
    during();
  } finally {
    config.onStoppedNotification = before;
  }
  return heard;
}

function isAbortError(reason: unknown): boolean {
  return reason instanceof DOMException && reason.name === 'AbortError';
}
