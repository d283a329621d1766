import type { Observable } from 'rxjs';
import { catchError, ignoreElements, map, merge, mergeMap, of, Subject, take, tap } from 'rxjs';
import type { LimiterJob, LimiterOptions } from '../../operators/index.js';
import { createLimiter, lanes, perMinute, slidingWindow } from '../../operators/index.js';
import type { MarbleSpec, SpecKit } from '../spec.js';

const fault = new Error('the call broke');

/** Capitals are urgent. */
const isCapital = (letter: string): boolean => letter !== letter.toLowerCase();

/** Digits cost as many tokens as they say. */
const tokens = (letter: string): number => Number(letter) || 0;

/** Every letter is a call of its own under one limiter and answers with its capital; a failure is drawn as the letter and its error. */
const limited =
  (
    options: LimiterOptions,
    work: (letter: string, kit: SpecKit) => Observable<string> = (letter, { inner }) => inner(letter),
    job: LimiterJob = {},
  ): MarbleSpec['build'] =>
  (kit) => {
    const limiter = createLimiter({ headroom: 1, ...options });
    return kit.input('source').pipe(
      mergeMap((letter) => {
        const lane = options.queue && { lane: isCapital(letter) ? 'urgent' : 'later' };
        return limiter
          .run(() => work(letter, kit).pipe(map(() => letter.toUpperCase())), { ...job, ...lane, cost: { tokens: tokens(letter) } })
          .pipe(catchError((error: unknown) => of(`${letter}: ${(error as Error).name}`)));
      }),
    );
  };

/** Digits are calls that cost as many tokens as they say, of 9 that are spent once; each value of `more` buys 6. */
const creditBought: MarbleSpec['build'] = ({ input, inner }) => {
  let bought = 9;
  const limits = () => ({ rates: [slidingWindow({ unit: 'tokens', amount: bought, windowMs: Infinity })] });
  const limiter = createLimiter({ ...limits(), headroom: 1 });
  const topUp = (): void => {
    bought += 6;
    limiter.setLimits(limits());
  };
  const call = (letter: string): Observable<string> =>
    limiter.run(() => inner(letter).pipe(map(() => letter)), { cost: { tokens: tokens(letter) } });
  return merge(input('source').pipe(mergeMap(call)), input('more').pipe(tap(topUp), ignoreElements()));
};

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'createLimiter',
    title: 'lets as many calls run as it has slots, and the next when one ends',
    shows: 'many',
    label: 'limiter = createLimiter({ concurrency: 2 }), mergeMap(call => limiter.run(call))',
    inputs: { source:        'abc----------|' },
    inners: { a:             '----(r|)',
              b:             '------(r|)',
              c:             '----(r|)' },
    subscriptions: { a:      '^---!',
                     b:      '-^-----!',
                     c:      '----^---!' },
    expected:                '----A--BC----|',
    cover: true,
    options: { concurrency: 2 },
    build: (kit) => limited(kit.options)(kit),
  },
  {
    operator: 'createLimiter',
    title: 'holds no slot while it waits for the rate',
    label: "limiter = createLimiter({ rates: [perMinute('requests', 6000, { burst: 1 })] }), mergeMap(call => limiter.run(call))",
    inputs: { source:        '(abc)------------------------|' },
    inners: { a:             '--(r|)', b: '--(r|)', c: '--(r|)' },
    subscriptions: { a:      '^-!',
                     b:      '----------^-!',
                     c:      '--------------------^-!' },
    expected:                '--A---------B---------C------|',
    build: limited({ rates: [perMinute('requests', 6000, { burst: 1 })] }),
  },
  {
    operator: 'createLimiter',
    title: 'grants in order of arrival: a cheap call does not overtake an expensive one',
    label: "limiter = createLimiter({ rates: [perMinute('tokens', 60000, { burst: 10 })] }), mergeMap(call => limiter.run(call))",
    inputs: { source:        '981----------------------|' },
    inners: { 9:             '(r|)', 8: '(r|)', 1: '(r|)' },
    subscriptions: { 9:      '(^!)',
                     8:      '-------(^!)',
                     1:      '--------(^!)' },
    expected:                '9------81----------------|',
    build: limited({ rates: [perMinute('tokens', 60_000, { burst: 10 })] }),
  },
  {
    operator: 'createLimiter',
    title: 'lets calls wait for an amount that is spent once until more is bought',
    label: "limiter = createLimiter({ rates: [slidingWindow({ unit: 'tokens', amount: 9, windowMs: Infinity })] }), m buys 6 more",
    inputs: { source:        '542---------|',
              more:          '------m-----|' },
    inners: { 5:             '-(r|)', 4: '-(r|)', 2: '-(r|)' },
    subscriptions: { 5:      '^!', 4: '-^!', 2: '------^!' },
    expected:                '-54----2----|',
    build: creditBought,
  },
  {
    operator: 'createLimiter',
    title: 'lets the urgent lane go first',
    label: "limiter = createLimiter({ concurrency: 1, queue: lanes([{ name: 'urgent' }, { name: 'later' }]) }), capitals are urgent",
    inputs: { source:        'abC------------|' },
    inners: { a:             '----(r|)', b: '---(r|)', C: '--(r|)' },
    subscriptions: { a:      '^---!',
                     C:      '----^-!',
                     b:      '------^--!' },
    expected:                '----A-C--B-----|',
    build: limited({ concurrency: 1, queue: lanes([{ name: 'urgent' }, { name: 'later' }]) }),
  },
  {
    operator: 'createLimiter',
    title: 'frees the slot of a call that fails',
    shows: 'error',
    label: 'limiter = createLimiter({ concurrency: 1 }), mergeMap(call => limiter.run(call))',
    inputs: { source:        'ab--------|' },
    inners: { a:             '---#', b: '--(r|)' },
    subscriptions: { a:      '^--!',
                     b:      '---^-!' },
    expected:                '---z-B----|',
    values: { z: 'a: Error' },
    error: fault,
    build: limited({ concurrency: 1 }),
  },
  {
    operator: 'createLimiter',
    title: 'refuses a call that waits too long',
    label: 'limiter = createLimiter({ concurrency: 1 }), mergeMap(call => limiter.run(call, { deadlineMs: 4 }))',
    inputs: { source:        'a-b----------|' },
    inners: { a:             '--------(r|)', b: '-' },
    subscriptions: { a:      '^-------!', b: [] },
    expected:                '------z-A----|',
    values: { z: 'b: DeadlineError' },
    build: limited({ concurrency: 1 }, undefined, { deadlineMs: 4 }),
  },
  {
    operator: 'createLimiter',
    title: 'refuses at once with maxQueued 0',
    label: 'limiter = createLimiter({ concurrency: 1, maxQueued: 0 }), mergeMap(call => limiter.run(call))',
    inputs: { source:        'a-b---c------|' },
    inners: { a:             '----(r|)', b: '-', c: '--(r|)' },
    subscriptions: { a:      '^---!', b: [], c: '------^-!' },
    expected:                '--z-A---C----|',
    values: { z: 'b: RateLimitError' },
    build: limited({ concurrency: 1, maxQueued: 0 }),
  },
  {
    operator: 'createLimiter',
    title: 'drops the oldest waiting job when the queue is full',
    label: "limiter = createLimiter({ concurrency: 1, maxQueued: 1, overflow: 'dropOldest' }), mergeMap(call => limiter.run(call))",
    inputs: { source:        'abc-----------|' },
    inners: { a:             '----(r|)', b: '-', c: '--(r|)' },
    subscriptions: { a:      '^---!', b: [], c: '----^-!' },
    expected:                '--z-A-C-------|',
    values: { z: 'b: OverflowError' },
    build: limited({ concurrency: 1, maxQueued: 1, overflow: 'dropOldest' }),
  },
  {
    operator: 'createLimiter',
    title: 'aborts running calls and removes waiting jobs when the consumer leaves',
    shows: 'early leave',
    label: 'limiter = createLimiter({ concurrency: 1 }), mergeMap(call => limiter.run(call))',
    inputs: { source:        'ab-----------' },
    inners: { a:             '--------(r|)', b: '--(r|)' },
    subscriptions: { a:      '^----!', b: [] },
    expected:                '-------------',
    unsub:                   '^----!',
    build: limited({ concurrency: 1 }),
  },
  {
    operator: 'createLimiter',
    title: 'waits for a call that never ends, and so do those behind it',
    shows: 'never',
    label: 'limiter = createLimiter({ concurrency: 1 }), mergeMap(call => limiter.run(call))',
    inputs: { source:        'ab' },
    inners: { a:             '-', b: '-' },
    subscriptions: { a:      '^ 999ms !', b: [] },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: limited({ concurrency: 1 }),
  },
  {
    operator: 'createLimiter',
    title: 'frees the slot of a call that has nothing to say',
    shows: 'empty',
    label: 'limiter = createLimiter({ concurrency: 1 }), mergeMap(call => limiter.run(call))',
    inputs: { source:        'ab-----|' },
    inners: { a:             '---|', b: '--(r|)' },
    subscriptions: { a:      '^--!', b: '---^-!' },
    expected:                '-----B-|',
    build: limited({ concurrency: 1 }),
  },
  {
    operator: 'createLimiter',
    title: 'makes a single call at once',
    shows: 'one',
    label: 'limiter = createLimiter({ concurrency: 1 }), mergeMap(call => limiter.run(call))',
    inputs: { source:        '-a-|' },
    inners: { a:              '---(r|)' },
    subscriptions: { a:      '-^--!' },
    expected:                '----(A|)',
    build: limited({ concurrency: 1 }),
  },
  {
    operator: 'createLimiter',
    title: 'frees the slot of work that throws',
    shows: 'throwing callback',
    label: 'limiter = createLimiter({ concurrency: 1 }), mergeMap(call => limiter.run(throwsAtA))',
    inputs: { source:        '(ab)-----|' },
    inners: { b:             '--(r|)' },
    subscriptions: { b:      '^-!' },
    expected:                'z-B------|',
    values: { z: 'a: Error' },
    synchronous: ['source'],
    build: limited({ concurrency: 1 }, (letter, { inner }) => { if (letter === 'a') throw fault; return inner(letter); }),
  },
  {
    operator: 'createLimiter',
    title: 'runs synchronous calls one after the other, and none for a consumer who has enough',
    shows: 'synchronous source',
    label: 'limiter = createLimiter({ concurrency: 1 }), mergeMap(call => limiter.run(call)), take(2)',
    inputs: { source:        '(abc|)' },
    inners: { a:             '(r|)', b: '(r|)', c: '(r|)' },
    subscriptions: { source: '(^!)', a: '(^!)', b: '(^!)', c: [] },
    expected:                '(AB|)',
    synchronous: ['source', 'a', 'b', 'c'],
    build: (kit) => limited({ concurrency: 1 })(kit).pipe(take(2)),
  },
  {
    operator: 'createLimiter',
    title: 'queues a call made at the result of another behind earlier jobs',
    shows: 're-entrant source',
    label: 'limiter = createLimiter({ concurrency: 1 }), mergeMap(call => limiter.run(call)), the consumer answers A with c',
    inputs: { source:        'ab------' },
    inners: { a:             '---(r|)', b: '--(r|)', c: '--(r|)' },
    subscriptions: { a:      '^--!', b: '---^-!', c: '-----^-!' },
    expected:                '---A-B-C',
    build: (kit) => {
      const loop = new Subject<string>();
      const answered = { ...kit, input: <T>(name: string) => merge(kit.input<T>(name), loop as unknown as Observable<T>) };
      return limited({ concurrency: 1 })(answered).pipe(tap((result) => { if (result === 'A') loop.next('c'); }));
    },
  },
];
