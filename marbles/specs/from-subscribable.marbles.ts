import { merge, Subject, take, tap } from 'rxjs';
import { fromSubscribable } from '../../operators/interop.js';
import type { MarbleSpec } from '../spec.js';

const fault = new Error('the stream broke');

const label = 'fromSubscribable((signal) => stream)';
const spec = (given: Omit<MarbleSpec, 'operator' | 'label' | 'build'> & Partial<MarbleSpec>): MarbleSpec => ({
  operator: 'fromSubscribable',
  label,
  build: ({ input }) => fromSubscribable(() => input('stream')),
  ...given,
});

export const specs: readonly MarbleSpec[] = [
  spec({
    title: 'emits what the stream does',
    shows: 'many',
    inputs: { stream:        '-a-b-c-|' },
    subscriptions: { stream: '^------!' },
    expected:                '-a-b-c-|',
    cover: true,
  }),
  spec({
    title: 'waits for a stream that never emits',
    shows: 'never',
    inputs: { stream:        '-' },
    subscriptions: { stream: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
  }),
  spec({
    title: 'completes with an empty stream',
    shows: 'empty',
    inputs: { stream:        '--|' },
    subscriptions: { stream: '^-!' },
    expected:                '--|',
  }),
  spec({
    title: 'emits the only value',
    shows: 'one',
    inputs: { stream:        '-a|' },
    subscriptions: { stream: '^-!' },
    expected:                '-a|',
  }),
  spec({
    title: 'errors with the stream',
    shows: 'error',
    inputs: { stream:        '-a-#' },
    subscriptions: { stream: '^--!' },
    expected:                '-a-#',
    error: fault,
  }),
  spec({
    title: 'leaves the stream with its consumer',
    shows: 'early leave',
    inputs: { stream:        '-a-b-c-' },
    subscriptions: { stream: '^---!' },
    expected:                '-a-b-',
    unsub:                   '^---!',
  }),
  spec({
    title: 'errors with what the factory throws',
    shows: 'throwing callback',
    label: 'fromSubscribable(throws)',
    inputs: { stream:        '-a|' },
    subscriptions: { stream: [] },
    expected:                '#',
    error: fault,
    build: () => fromSubscribable(() => { throw fault; }),
  }),
  spec({
    title: 'leaves a synchronous stream as soon as the consumer has enough',
    shows: 'synchronous source',
    label: `${label}, take(1)`,
    inputs: { stream:        '(abc|)' },
    subscriptions: { stream: '(^!)' },
    expected:                '(a|)',
    synchronous: ['stream'],
    build: ({ input }) => fromSubscribable(() => input('stream')).pipe(take(1)),
  }),
  spec({
    title: 'emits at once what the consumer sends into the stream while it receives a value',
    shows: 're-entrant source',
    label: `${label}, the consumer answers a with b`,
    inputs: { stream:        '-a--' },
    expected:                '-(ba)',
    build: ({ input }) => {
      const loop = new Subject<string>();
      return fromSubscribable(() => merge(input('stream'), loop)).pipe(tap((value) => { if (value === 'a') loop.next('b'); }));
    },
  }),
];
