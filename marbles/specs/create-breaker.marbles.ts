import { catchError, EMPTY, expand, mergeMap, of, take } from 'rxjs';
import type { BreakerOptions } from '../../operators/index.js';
import { BreakerOpenError, createBreaker, isFlowError } from '../../operators/index.js';
import type { MarbleSpec } from '../spec.js';

const down = Object.assign(new Error('status 503'), { status: 503 });

/** One call. */
const called = (options?: BreakerOptions): MarbleSpec['build'] => ({ inner }) => createBreaker(options).run(() => inner('call'));

/** Every letter is a call of its own behind one breaker. An error of a call is drawn as `x`, a call that was refused as `r`. */
const calls = (options: BreakerOptions): MarbleSpec['build'] => ({ input, inner }) => {
  const breaker = createBreaker(options);
  return input('source').pipe(
    mergeMap((letter) =>
      breaker
        .run(() => inner(letter))
        .pipe(catchError((error: unknown) => of(isFlowError(error, 'FLOW_BREAKER_OPEN') ? 'r' : 'x'))),
    ),
  );
};

const spec = (given: Omit<MarbleSpec, 'operator' | 'inputs'> & Partial<Pick<MarbleSpec, 'inputs'>>): MarbleSpec => ({
  operator: 'createBreaker',
  inputs: {},
  ...given,
});

export const specs: readonly MarbleSpec[] = [
  spec({
    title: 'opens when too many calls fail, lets a probe through after a while, and closes when that succeeds',
    label: 'mergeMap(breaker.run(call)), { opens: { inARow: 2 }, openMs: 5 }; r = refused, x = failed',
    inputs: { source:        'a-b-c-d---e-f|' },
    inners: { a:             '#',
              b:               '#',
              e:                       '-(E|)',
              f:                         '(F|)' },
    subscriptions: { c: [], d: [], e:  '----------^!' },
    expected:                'x-x-r-r----EF|',
    error: down,
    cover: true,
    options: { inARow: 2, openMs: 5 },
    build: (kit) => calls({ opens: { inARow: kit.options['inARow'] ?? 2 }, openMs: kit.options['openMs'] ?? 5 })(kit),
  }),
  spec({
    title: 'stays open twice as long when the probe fails',
    label: 'mergeMap(breaker.run(call)), { opens: { inARow: 1 }, openMs: 3 }; r = refused, x = failed',
    inputs: { source:        'a--b--c--d|' },
    inners: { a:             '#',
              b:                '#',
              d:                      '(D|)' },
    subscriptions: { c: [] },
    expected:                'x--x--r--D|',
    error: down,
    build: calls({ opens: { inARow: 1 }, openMs: 3 }),
  }),
  spec({
    title: 'lets one probe through at a time',
    label: 'mergeMap(breaker.run(call)), { opens: { inARow: 1 }, openMs: 3 }; r = refused, x = failed',
    inputs: { source:        'a--bc--d|' },
    inners: { a:             '#',
              b:                '--(B|)',
              d:                    '(D|)' },
    subscriptions: { c: [] },
    expected:                'x---rB-D|',
    error: down,
    build: calls({ opens: { inARow: 1 }, openMs: 3 }),
  }),
  spec({
    title: 'does not hear of a call that was under way when it opened',
    label: 'mergeMap(breaker.run(call)), { opens: { inARow: 2 }, openMs: 3 }; r = refused, x = failed',
    inputs: { source:        'ab-c--d-e|' },
    inners: { a:             '-------#',
              b:              '#',
              c:                '#',
              d:                   '-',
              e:                     '-' },
    subscriptions: { d:      '------^', e: [] },
    expected:                '-x-x---xr',
    error: down,
    build: calls({ opens: { inARow: 2 }, openMs: 3 }),
  }),
  spec({
    title: 'makes a single call',
    shows: 'one',
    label: 'breaker.run(call)',
    inners: { call:          '--(a|)' },
    expected:                '--(a|)',
    build: called(),
  }),
  spec({
    title: 'waits for a call that never ends',
    shows: 'never',
    label: 'breaker.run(call)',
    inners: { call:          '-' },
    subscriptions: { call:   '^ 99ms !' },
    expected:                '-',
    unsub:                   '^ 99ms !',
    build: called(),
  }),
  spec({
    title: 'completes with a call that has nothing to say',
    shows: 'empty',
    label: 'breaker.run(call)',
    inners: { call:          '--|' },
    expected:                '--|',
    build: called(),
  }),
  spec({
    title: 'emits every value of a call as it comes',
    shows: 'many',
    label: 'breaker.run(call)',
    inners: { call:          'a--b-c|' },
    expected:                'a--b-c|',
    build: called(),
  }),
  spec({
    title: 'emits the error of a call',
    shows: 'error',
    label: 'breaker.run(call)',
    inners: { call:          'a--#' },
    expected:                'a--#',
    error: down,
    build: called(),
  }),
  spec({
    title: 'refuses a call at once while it is open',
    label: 'breaker.trip(), breaker.run(call)',
    inners: { call:          '(a|)' },
    subscriptions: { call: [] },
    expected:                '#',
    error: new BreakerOpenError('createBreaker', Infinity),
    build: ({ inner }) => {
      const breaker = createBreaker();
      breaker.trip();
      return breaker.run(() => inner('call'));
    },
  }),
  spec({
    title: 'leaves the call when the consumer leaves',
    shows: 'early leave',
    label: 'breaker.run(call)',
    inners: { call:          '------(a|)' },
    subscriptions: { call:   '^--!' },
    expected:                '----',
    unsub:                   '^--!',
    build: called(),
  }),
  spec({
    title: 'emits the error of a call whose class is unknown',
    shows: 'throwing callback',
    label: 'breaker.run(call), { classify: throws }',
    inners: { call:          '-#' },
    expected:                '-#',
    error: down,
    build: called({ classify: () => { throw new Error('no opinion'); } }),
  }),
  spec({
    title: 'leaves a synchronous call as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'breaker.run(call), take(1)',
    inners: { call:          '(abc|)' },
    subscriptions: { call:   '(^!)' },
    expected:                '(a|)',
    synchronous: ['call'],
    build: (kit) => called()(kit).pipe(take(1)),
  }),
  spec({
    title: 'makes another call from inside the answer to the first',
    shows: 're-entrant source',
    label: 'breaker.run(call), the consumer answers a by calling again, once',
    inners: { call:          '--(a|)' },
    subscriptions: { call: ['^-!', '--^-!'] },
    expected:                '--a-(a|)',
    build: (kit) => {
      const call = called()(kit);
      return call.pipe(expand((_answer, index) => (index === 0 ? call : EMPTY)));
    },
  }),
];
