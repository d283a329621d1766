import type { OperatorFunction } from 'rxjs';
import { concatMap, config, mergeMap, Observable, of, Subject, switchMap, UnsubscriptionError } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent } from '../../operators/index.js';
import { batchMap, bulkheadMap, createLimiter, natural, policy, retryFailed, switchLatest } from '../../operators/index.js';

afterEach(() => {
  config.onUnhandledError = null;
});

/** Every inner stream: counted while it runs, and its teardown throws. */
function inner() {
  let open = 0;
  const project = (): Observable<never> =>
    new Observable(() => {
      open++;
      return () => {
        open--;
        throw new Error('teardown');
      };
    });
  return { project, open: () => open };
}

const bySize = { maxSize: 1, window: natural(), concurrency: 2 };
type Project = () => Observable<never>;
const operators: Readonly<
  Record<
    string,
    readonly [
      ours: (project: Project) => OperatorFunction<number, unknown>,
      theirs?: (project: Project) => OperatorFunction<number, unknown>,
    ]
  >
> = {
  bulkheadMap: [(project) => bulkheadMap(project, { concurrency: 2, errors: 'propagate' }), (project) => mergeMap(project, 2)],
  'bulkheadMap that settles': [(project) => bulkheadMap(project, { concurrency: 2 })],
  'bulkheadMap, one per key': [
    (project) => bulkheadMap(project, { key: () => 0, perKey: 1, errors: 'propagate' }),
    (project) => concatMap(project),
  ],
  'bulkheadMap that settles one per key': [(project) => bulkheadMap(project, { key: (n: number) => n, perKey: 1 })],
  switchLatest: [(project) => switchLatest(project), (project) => switchMap(project)],
  'switchLatest with keys': [(project) => switchLatest(project, { key: (n) => n, errors: 'settle' })],
  batchMap: [(project) => batchMap(project, bySize)],
};

function leaving(operator: (project: Project) => OperatorFunction<number, unknown>): { readonly error: unknown; readonly open: number } {
  const { project, open } = inner();
  const source = new Subject<number>();
  const subscription = source.pipe(operator(project)).subscribe();
  // One: a superseded stream that throws ends `switchMap`.
  source.next(1);
  let error: unknown;
  try {
    subscription.unsubscribe();
  } catch (thrown) {
    error = thrown;
  }
  expect(source.observed).toBe(false);
  return { error, open: open() };
}

describe.each(Object.entries(operators))('%s whose inner streams throw when they are torn down', (_, [ours, theirs]) => {
  it('cleans up everything, and hands what they throw to the code that unsubscribes', () => {
    const reported: unknown[] = [];
    config.onUnhandledError = (error) => reported.push(error);
    const { error, open } = leaving(ours);
    expect(open).toBeLessThanOrEqual(theirs ? leaving(theirs).open : 0);
    expect(error).toBeInstanceOf(UnsubscriptionError);
    const { errors } = error as UnsubscriptionError;
    expect(errors.every((each) => (each as Error).message === 'teardown')).toBe(true);
    if (theirs) expect(errors).toHaveLength((leaving(theirs).error as UnsubscriptionError).errors.length);
    return new Promise((resolve) => setTimeout(resolve, 5)).then(() => {
      expect(reported).toEqual([]);
    });
  });
});

const busy = Object.assign(new Error('status 503'), { status: 503 });
/** A listener that writes down events and outcomes. */
function log(events: string[]): (event: FlowEvent) => void {
  return (event) => {
    events.push('outcome' in event ? `${event.type} ${event.outcome}` : event.type);
  };
}

describe('a teardown that throws', () => {
  let reported: unknown[];
  beforeEach(() => {
    reported = [];
    config.onUnhandledError = (error) => reported.push(error);
  });
  afterEach(() => {
    config.onUnhandledError = null;
  });

  const stubborn = (begin: (inner: { next(value: string): void; error(error: unknown): void; complete(): void }) => void) =>
    new Observable<string>((subscriber) => {
      subscriber.add(() => {
        throw new Error('teardown');
      });
      begin(subscriber);
    });

  it.each([
    ['completes', 'complete', ['answer', 'complete']],
    ['fails', 'error', [busy]],
    ['takes too long', 'nothing', [expect.objectContaining({ name: 'AttemptTimeoutError' })]],
  ] as const)('does not keep a call that %s from ending, nor its permit', (_name, how, seen) => {
    virtualTime(({ flush, scheduler }) => {
      const limiter = createLimiter({ scheduler, concurrency: 1 });
      const signals: unknown[] = [];
      const work = (): Observable<string> =>
        stubborn((inner) => {
          scheduler.schedule(() => {
            if (how === 'complete') {
              inner.next('answer');
              inner.complete();
            } else if (how === 'error') inner.error(busy);
          }, 5);
        });
      policy({ limiter, scheduler, timeoutMs: 50 })(work).subscribe({
        next: (value) => signals.push(value),
        error: (error: unknown) => signals.push(error),
        complete: () => signals.push('complete'),
      });
      flush();
      expect([signals, limiter.executing]).toEqual([seen, 0]);
    });
    expect(reported).toHaveLength(1);
  });

  it('does not keep the permit of a call that is left, or its attempt', () => {
    virtualTime(({ flush, scheduler }) => {
      const events: string[] = [];
      const limiter = createLimiter({ scheduler, concurrency: 2 });
      const work = (): Observable<string> => stubborn(() => undefined);
      policy({ limiter, retry: retryFailed(), scheduler, onEvent: log(events) })(work)
        .subscribe()
        .unsubscribe();
      limiter.run(work).subscribe().unsubscribe();
      flush();
      expect([events, limiter.executing]).toEqual([['accepted', 'attemptStarted', 'attemptEnded cancelled', 'cancelled'], 0]);
    });
    expect(reported).toHaveLength(2);
  });

  it('does not keep the items of a batch from being settled', () => {
    const results: unknown[] = [];
    virtualTime(({ flush, scheduler }) => {
      const work = (): Observable<string[]> =>
        new Observable((subscriber) => {
          subscriber.add(() => {
            throw new Error('teardown');
          });
          subscriber.next(['a']);
          subscriber.complete();
        });
      of('a')
        .pipe(batchMap(work, { scheduler }))
        .subscribe((settled) => results.push(settled.status));
      flush();
    });
    expect([results, reported.length]).toEqual([['fulfilled'], 1]);
  });
});
