import type { Observable, OperatorFunction } from 'rxjs';
import { concatMap, config, mergeMap, Observable as Stream, Subject, switchMap, UnsubscriptionError } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { batchMap, bulkheadMap, natural, switchLatest } from '../../operators/index.js';

afterEach(() => {
  config.onUnhandledError = null;
});

/** Every inner stream: counted while it runs, and its teardown throws. */
function inner() {
  let open = 0;
  const project = (): Observable<never> =>
    new Stream(() => {
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
