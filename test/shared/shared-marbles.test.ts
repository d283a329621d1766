import type { Observable } from 'rxjs';
import { catchError, last, map, merge, mergeMap, of, Subject, takeUntil, tap } from 'rxjs';
import { describe, it } from 'vitest';
import type { MarbleTest, SpecKit } from '../../marbles/index.js';
import { runSpec } from '../../marbles/index.js';
import type { CreditStore, Limiter, LimiterJob, LimiterOptions, RateRule } from '../../operators/index.js';
import { createLimiter, lanes, memoryStore, shared, slidingWindow } from '../../operators/index.js';
import { assertEqual } from '../support/marble-files.js';

/** Digits cost as many tokens as they say, letters one. */
const tokens = (letter: string): number => Number(letter) || 1;

/** Nine tokens in any ten seconds. */
const NINE: readonly RateRule[] = [slidingWindow({ unit: 'tokens', amount: 9, windowMs: 10_000 })];

/** A store that decides at once. Its first answers come as the inner streams of these names say, all others at once. */
function storeOf({ inner, scheduler }: SpecKit, ...answers: readonly string[]): CreditStore {
  const store = memoryStore({ scheduler });
  let asked = 0;
  return {
    ask: (question) => {
      const name = answers[asked++];
      const answer = store.ask(question);
      return name === undefined ? answer : inner(name).pipe(map(() => answer));
    },
    correct: (corrections) => {
      store.correct(corrections);
    },
    hold: (scope, ms) => {
      store.hold(scope, ms);
    },
  };
}

function limiterOn(store: CreditStore, { scheduler }: SpecKit, options: LimiterOptions = {}): Limiter {
  return createLimiter({ headroom: 1, scheduler, ...options, rates: shared(store, NINE, { guardMs: 100 }) });
}

/** The letters of an input are calls, and are drawn when they begin; one that is refused as the letter and its error. */
function calls(
  { input }: SpecKit,
  limiter: Limiter,
  name = 'calls',
  jobOf: (letter: string) => LimiterJob = () => ({}),
): Observable<string> {
  const call = (letter: string) => limiter.run(() => of(letter), { cost: { tokens: tokens(letter) }, ...jobOf(letter) });
  return input(name).pipe(
    mergeMap((letter) => call(letter).pipe(catchError((error: unknown) => of(`${letter} ${(error as Error).name}`)))),
  );
}

/** Does something at the first letter of an input, and draws nothing. */
function when({ input }: SpecKit, name: string, act: () => void): Observable<never> {
  return input(name).pipe(
    tap(act),
    mergeMap(() => [] as never[]),
  );
}

/** Emits when an input is over. */
function endOf({ input }: SpecKit, name: string): Observable<unknown> {
  return input(name).pipe(last());
}

const SPECS: Readonly<Record<string, MarbleTest>> = {
  'gives credit that comes late to the job that waits by then, when the one that asked was aborted': {
    inputs: { calls: 'a----b---- 500ms |', aborts: '--(x|)' },
    inners: { ask: '----------(r|)' },
    subscriptions: { ask: '^---------!' },
    expected: '----------b 499ms |',
    build: (kit) => {
      const limiter = limiterOn(storeOf(kit, 'ask'), kit);
      const isAborted = new Subject<void>();
      const first = limiter.run(() => of('a'), { cost: { tokens: 1 } }).pipe(takeUntil(isAborted));
      const aborts = when(kit, 'aborts', () => {
        isAborted.next();
      });
      const other = kit
        .input('calls')
        .pipe(mergeMap((letter) => (letter === 'a' ? first : limiter.run(() => of(letter), { cost: { tokens: 1 } }))));
      return merge(aborts, other);
    },
  },

  'gives it to the next job when the deadline of the one that asked is over': {
    inputs: { calls: 'a----b---- 500ms |' },
    inners: { ask: '----------(r|)' },
    subscriptions: { ask: '^---------!' },
    expected: '---x------b 499ms |',
    values: { x: 'a DeadlineError' },
    build: (kit) => calls(kit, limiterOn(storeOf(kit, 'ask'), kit), 'calls', (letter) => (letter === 'a' ? { deadlineMs: 3 } : {})),
  },

  'gives it back when the limiter was closed, so that another process gets all': {
    inputs: { calls: '9--------- 20ms ---- 600ms |', closes: '---(x|)', others: '20ms (9|)' },
    inners: { ask: '----------(r|)' },
    subscriptions: { ask: '^---------!' },
    expected: '---x------ 10ms 9 613ms |',
    values: { x: '9 ClosedError' },
    build: (kit) => {
      const store = storeOf(kit, 'ask');
      const [limiter, other] = [limiterOn(store, kit), limiterOn(store, kit)];
      const closes = when(kit, 'closes', () => {
        limiter.close();
      });
      return merge(calls(kit, limiter), calls(kit, other, 'others'), closes);
    },
  },

  'is for a job that has moved to a more urgent lane meanwhile': {
    inputs: { calls: 'a--------- 500ms |', moves: '---(x|)' },
    inners: { ask: '----------(r|)' },
    subscriptions: { ask: '^---------!' },
    expected: '----------a 499ms |',
    build: (kit) => {
      const limiter = limiterOn(storeOf(kit, 'ask'), kit, { queue: lanes([{ name: 'user' }, { name: 'batch' }]) });
      const moves = when(kit, 'moves', () => {
        limiter.move('a', 'user');
      });
      return merge(
        moves,
        calls(kit, limiter, 'calls', (id) => ({ id, lane: 'batch' })),
      );
    },
  },

  'asks again under the same number when the answer was lost, and is charged once': {
    inputs: { calls: '4 2199ms 5 500ms |' },
    inners: { ask: '-' },
    subscriptions: { ask: '^ 1999ms !' },
    expected: '2050ms 4 149ms 5 500ms |',
    build: (kit) => calls(kit, limiterOn(storeOf(kit, 'ask'), kit)),
  },

  'waits while the store is down, and tells its end once': {
    inputs: { calls: 'a 999ms |' },
    inners: { ask: '#', 'ask 2': '#' },
    subscriptions: { ask: '(^!)', 'ask 2': '50ms (^!)' },
    expected: 'd 149ms (ua) 846ms |',
    build: (kit) => {
      const told = new Subject<string>();
      const letters: Readonly<Record<string, string>> = { storeDown: 'd', storeUp: 'u' };
      const limiter = limiterOn(storeOf(kit, 'ask', 'ask 2'), kit, {
        onEvent: ({ type }) => {
          const { [type]: letter } = letters;
          if (letter !== undefined) told.next(letter);
        },
      });
      return merge(told.pipe(takeUntil(endOf(kit, 'calls'))), calls(kit, limiter));
    },
  },

  'gives back what ends unspent, for another process': {
    inputs: { starts: '(x|)', others: '-9 1500ms |' },
    expected: '501ms 9 1000ms |',
    build: (kit) => {
      const store = storeOf(kit);
      const [limiter, other] = [limiterOn(store, kit), limiterOn(store, kit)];
      const starts = when(kit, 'starts', () => {
        limiter.tryAcquire({ cost: { tokens: 9 } })?.release('unused');
      });
      return merge(starts, calls(kit, other, 'others'));
    },
  },

  'hears of a hold of another process, and keeps it': {
    inputs: { holds: '(x|)', others: '----------a-b 800ms |' },
    expected: '----------h 289ms (ab) 509ms |',
    build: (kit) => {
      const store = storeOf(kit);
      const told = new Subject<string>();
      const limiter = limiterOn(store, kit);
      const other = limiterOn(store, kit, {
        onEvent: ({ type }) => {
          if (type === 'throttled') told.next('h');
        },
      });
      const holds = when(kit, 'holds', () => {
        limiter.penalize(300);
      });
      return merge(told.pipe(takeUntil(endOf(kit, 'others'))), holds, calls(kit, other, 'others'));
    },
  },
};

describe('a shared rate', () => {
  it.each(Object.entries(SPECS))('%s', (_, spec) => {
    runSpec(spec, assertEqual);
  });
});
