import { map, merge, Subject, take, tap } from 'rxjs';
import type { LaneBatch, MergeLane, MergeLanesOptions } from '../../operators/index.js';
import { CallbackError, mergeLanes, OverflowError, weighted } from '../../operators/index.js';
import type { MarbleSpec, SpecKit } from '../spec.js';

const fault = new Error('the lane broke');

/** A batch as the text `ABab by high: urgent`. */
const shown = ({ items, lane, reason }: LaneBatch<string>): string => `${items.join('')} by ${lane}: ${reason}`;

type Settings = Partial<Omit<MergeLane<string>, 'name' | 'source'>>;

const lanesOf = ({ input }: SpecKit, lanes: Readonly<Record<string, Settings>>): MergeLane<string>[] =>
  Object.entries(lanes).map(([name, settings]) => ({ name, source: input(name), ...settings }));

const merged =
  (lanes: Readonly<Record<string, Settings>>, options?: MergeLanesOptions<string>): MarbleSpec['build'] =>
  (kit) =>
    mergeLanes(lanesOf(kit, lanes), options).pipe(map(shown));

/** Digits are their own weight: '3' weighs 3. */
const weigh = Number;

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'mergeLanes',
    title: 'sends urgent items at once, and waiting items of the lower lane travel with them',
    shows: 'many',
    label: 'mergeLanes([high, low]), low = { maxWaitMs: 12 }',
    inputs: { high:          '------(AB)--------------C---|',
              low:           '--a---b---c---d---e---f-----|' },
    subscriptions: { high:   '^---------------------------!',
                     low:    '^---------------------------!' },
    expected:                '------x---------------y-z---|',
    values: { x: 'ABab by high: urgent', y: 'cdef by low: time', z: 'C by high: urgent' },
    cover: true,
    options: { maxWaitMs: 12 },
    build: (kit) => merged({ high: {}, low: kit.options })(kit),
  },
  {
    operator: 'mergeLanes',
    title: 'closes the batch of the lower lane by size',
    label: 'mergeLanes([high, low], { maxSize: 4 })',
    inputs: { high:          '------(AB)--------------C---|',
              low:           '--a---b---c---d---e---f-----|' },
    expected:                '------x---------------y-z---|',
    values: { x: 'ABab by high: size', y: 'cdef by low: size', z: 'C by high: urgent' },
    build: merged({ high: {}, low: { maxWaitMs: 500 } }, { maxSize: 4 }),
  },
  {
    operator: 'mergeLanes',
    title: 'gathers urgent items that are not quite simultaneous with a short wait',
    label: 'mergeLanes([high, low]) with maxWaitMs 4 and 12',
    inputs: { high:          '--A---B-----------------C-----|',
              low:           '--a---b---c---d---e---f-------|' },
    expected:                '------x---------------y-----z-|',
    values: { x: 'ABab by high: time', y: 'cdef by low: time', z: 'C by high: time' },
    build: merged({ high: { maxWaitMs: 4 }, low: { maxWaitMs: 12 } }),
  },

  // What every operator must answer for.
  {
    operator: 'mergeLanes',
    title: 'waits for lanes that never emit',
    shows: 'never',
    label: 'mergeLanes([high, low])',
    inputs: { high:          '-', low: '-' },
    subscriptions: { high: '^ 999ms !', low: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: merged({ high: {}, low: {} }),
  },
  {
    operator: 'mergeLanes',
    title: 'completes with the last lane, without an empty batch',
    shows: 'empty',
    label: 'mergeLanes([high, low])',
    inputs: { high:          '---|',
              low:           '-----|' },
    expected:                '-----|',
    build: merged({ high: {}, low: {} }),
  },
  {
    operator: 'mergeLanes',
    title: 'emits what still waits when the last lane completes',
    shows: 'one',
    label: 'mergeLanes([high, low])',
    inputs: { high:          '---|',
              low:           '-a---|' },
    expected:                '-----(x|)',
    values: { x: 'a by low: complete' },
    build: merged({ high: {}, low: {} }),
  },
  {
    operator: 'mergeLanes',
    title: 'continues with its timers when a lane has completed',
    label: 'mergeLanes([high, low]) with maxWaitMs 0 and 5',
    inputs: { high:          '|',
              low:           '-a--------b' },
    expected:                '------x--------y',
    values: { x: 'a by low: time', y: 'b by low: time' },
    build: merged({ high: {}, low: { maxWaitMs: 5 } }),
  },
  {
    operator: 'mergeLanes',
    title: 'emits waiting items before the error of a lane',
    shows: 'error',
    label: 'mergeLanes([high, low])',
    inputs: { high:          '----#',
              low:           '-a------b' },
    subscriptions: { high: '^---!', low: '^---!' },
    expected:                '----(x#)',
    values: { x: 'a by low: error' },
    error: fault,
    build: merged({ high: {}, low: {} }),
  },
  {
    operator: 'mergeLanes',
    title: "drops waiting items at the error of a lane with onSourceError 'abort'",
    label: "mergeLanes([high, low], { onSourceError: 'abort' })",
    inputs: { high:          '----#',
              low:           '-a------b' },
    expected:                '----#',
    error: fault,
    build: merged({ high: {}, low: {} }, { onSourceError: 'abort' }),
  },
  {
    operator: 'mergeLanes',
    title: "continues without a lane that errors with errors 'isolate'",
    label: "mergeLanes([high, low], { errors: 'isolate' })",
    inputs: { high:          '----#',
              low:           '-a------b--|' },
    expected:                '-----------(x|)',
    values: { x: 'ab by low: complete' },
    error: fault,
    build: merged({ high: {}, low: {} }, { errors: 'isolate' }),
  },
  {
    operator: 'mergeLanes',
    title: 'drops waiting items when the consumer leaves',
    shows: 'early leave',
    label: 'mergeLanes([high, low])',
    inputs: { high:          '----------A',
              low:           '-a------b--' },
    subscriptions: { high: '^----!', low: '^----!' },
    expected:                '-----------',
    unsub:                   '^----!',
    build: merged({ high: {}, low: {} }),
  },
  {
    operator: 'mergeLanes',
    title: 'leaves synchronous lanes as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'mergeLanes([high, low], { maxSize: 2 }), take(1)',
    inputs: { high:          '(ABCD|)',
              low:           '(abcd|)' },
    subscriptions: { high: '(^!)', low: [] },
    expected:                '(x|)',
    values: { x: 'AB by high: size' },
    synchronous: ['high', 'low'],
    build: (kit) => mergeLanes(lanesOf(kit, { high: {}, low: {} }), { maxSize: 2 }).pipe(map(shown), take(1)),
  },
  {
    operator: 'mergeLanes',
    title: 'turns a throwing callback into an error, after waiting items',
    shows: 'throwing callback',
    label: 'mergeLanes([high, low], { weigh: throwsAtB })',
    inputs: { high:          '---B-----',
              low:           '-a-------' },
    expected:                '---(x#)',
    values: { x: 'a by low: error' },
    error: new CallbackError('mergeLanes', 'weigh', 'threw', fault),
    build: merged({ high: {}, low: {} }, { weigh: (item) => { if (item === 'B') throw fault; return 1; } }),
  },
  {
    operator: 'mergeLanes',
    title: 'puts what the consumer sends back into a fresh batch',
    shows: 're-entrant source',
    label: 'mergeLanes([high, low], { maxSize: 2 }), the consumer answers ab with B and c',
    inputs: { low:           '-ab' },
    expected:                '--(xy)',
    values: { x: 'ab by low: size', y: 'Bc by high: size' },
    build: ({ input }) => {
      const high = new Subject<string>();
      const low = new Subject<string>();
      const lanes = [{ name: 'high', source: high }, { name: 'low', source: merge(input('low'), low) }];
      const answer = (batch: string): void => {
        if (!batch.startsWith('ab')) return;
        high.next('B');
        low.next('c');
      };
      return mergeLanes(lanes, { maxSize: 2 }).pipe(map(shown), tap(answer));
    },
  },

  // Which lane, and in which order.
  {
    operator: 'mergeLanes',
    title: 'waits 0, 50 and 500 ms by default',
    label: 'mergeLanes([p0, p1, p2])',
    inputs: { p0:            '- 999ms A',
              p1:            '- 699ms m',
              p2:            'z' },
    expected:                '500ms x 249ms y 249ms w',
    values: { x: 'z by p2: time', y: 'm by p1: time', w: 'A by p0: urgent' },
    build: merged({ p0: {}, p1: {}, p2: {} }),
  },
  {
    operator: 'mergeLanes',
    title: 'starts with the item that has waited long enough, then fills up by priority',
    label: 'mergeLanes([p0, p1, p2], { maxSize: 4 }) with maxWaitMs 9, 9 and 5',
    inputs: { p0:            '---A',
              p1:            '--m-',
              p2:            'y-z-' },
    expected:                '---x',
    values: { x: 'Amyz by p0: size' },
    build: merged({ p0: { maxWaitMs: 9 }, p1: { maxWaitMs: 9 }, p2: { maxWaitMs: 5 } }, { maxSize: 4 }),
  },
  {
    operator: 'mergeLanes',
    title: 'lets the lane that has waited long enough lead, and the urgent ones ride along',
    label: 'mergeLanes([p0, p1, p2]) with maxWaitMs 9, 9 and 5',
    inputs: { p0:            '---A',
              p1:            '--m-',
              p2:            'y-z-' },
    expected:                '-----x',
    values: { x: 'yAmz by p2: time' },
    build: merged({ p0: { maxWaitMs: 9 }, p1: { maxWaitMs: 9 }, p2: { maxWaitMs: 5 } }),
  },
  {
    operator: 'mergeLanes',
    title: 'keeps company out of the batches of a lane that refuses it',
    label: 'mergeLanes([high, low]) with piggyback false and maxWaitMs 6',
    inputs: { high:          '---A---',
              low:           '-ab----' },
    expected:                '---x---y',
    values: { x: 'A by high: urgent', y: 'ab by low: time' },
    build: merged({ high: { piggyback: false }, low: { maxWaitMs: 6 } }),
  },
  {
    operator: 'mergeLanes',
    title: 'takes from the lanes by their shares',
    label: "mergeLanes([gold, free], { maxSize: 8, fairness: weighted() }) with share 3 and 1",
    inputs: { gold:          '(ABCDEF)--|',
              free:          '(abcdef)--|' },
    expected:                'x---------(y|)',
    values: { x: 'ABCaDEFb by gold: size', y: 'cdef by free: complete' },
    build: merged({ gold: { share: 3, maxWaitMs: 50 }, free: {} }, { maxSize: 8, fairness: weighted() }),
  },
  {
    operator: 'mergeLanes',
    title: 'gathers one frame',
    label: 'mergeLanes([high, low])',
    inputs: { high:          '(ABC)---D|',
              low:           'a--------|' },
    expected:                'x-------y|',
    values: { x: 'ABCa by high: urgent', y: 'D by high: urgent' },
    synchronous: ['high', 'low'],
    build: merged({ high: {}, low: {} }),
  },

  // Weight. Digits weigh what they say.
  {
    operator: 'mergeLanes',
    title: 'closes at once when the lanes together reach the weight',
    label: 'mergeLanes([high, low], { maxWeight: 5, weigh })',
    inputs: { high:          '----2',
              low:           '-3---' },
    expected:                '----x',
    values: { x: '23 by high: weight' },
    build: merged({ high: { maxWaitMs: 50 }, low: {} }, { maxWeight: 5, weigh }),
  },
  {
    operator: 'mergeLanes',
    title: 'closes a lane for one batch at an item that does not fit, while others still fill it up',
    label: 'mergeLanes([p0, p1, p2], { maxWeight: 7, weigh }) with maxWaitMs 9 in p1',
    inputs: { p0:            '------3------|',
              p1:            '-5-----------|',
              p2:            '--1----------|' },
    expected:                '------x---y--|',
    values: { x: '31 by p0: weight', y: '5 by p1: time' },
    build: merged({ p0: {}, p1: { maxWaitMs: 9 }, p2: {} }, { maxWeight: 7, weigh }),
  },
  {
    operator: 'mergeLanes',
    title: 'sends an item that is too heavy alone and at once',
    label: 'mergeLanes([high, low], { maxWeight: 5, weigh })',
    inputs: { high:          '-2------',
              low:           '---9----' },
    expected:                '---(xy)-',
    values: { x: '2 by high: weight', y: '9 by low: oversize' },
    build: merged({ high: { maxWaitMs: 50 }, low: {} }, { maxWeight: 5, weigh }),
  },

  // Bounds, each of its own lane.
  {
    operator: 'mergeLanes',
    title: 'errors at the bound of a lane, after waiting items',
    label: 'mergeLanes([high, low]) with maxQueued 2 in low',
    inputs: { high:          '--------',
              low:           '-a-b-c--' },
    expected:                '-----(x#)',
    values: { x: 'ab by low: error' },
    error: new OverflowError('mergeLanes', 2, 'error'),
    build: merged({ high: {}, low: { maxQueued: 2 } }),
  },
  {
    operator: 'mergeLanes',
    title: "drops the oldest of a full lane with overflow 'dropOldest', and nothing of the others",
    label: "mergeLanes([high, low], { overflow: 'dropOldest' }) with maxQueued 2 in low",
    inputs: { high:          '------A-|',
              low:           '-a-b-c--|' },
    expected:                '------x-|',
    values: { x: 'Abc by high: urgent' },
    build: merged({ high: {}, low: { maxQueued: 2 } }, { overflow: 'dropOldest' }),
  },
  {
    operator: 'mergeLanes',
    title: "drops the newcomer of a full lane with overflow 'dropNewest'",
    label: "mergeLanes([high, low], { overflow: 'dropNewest' }) with maxQueued 2 in low",
    inputs: { high:          '------A-|',
              low:           '-a-b-c--|' },
    expected:                '------x-|',
    values: { x: 'Aab by high: urgent' },
    build: merged({ high: {}, low: { maxQueued: 2 } }, { overflow: 'dropNewest' }),
  },
  {
    operator: 'mergeLanes',
    title: "keeps only the newest of a full lane with overflow 'latest'",
    label: "mergeLanes([high, low]) with maxQueued 2 and overflow 'latest' in low",
    inputs: { high:          '------A-|',
              low:           '-a-b-c--|' },
    expected:                '------x-|',
    values: { x: 'Ac by high: urgent' },
    build: merged({ high: {}, low: { maxQueued: 2, overflow: 'latest' } }),
  },

  // Flushing by hand.
  {
    operator: 'mergeLanes',
    title: 'emits all that waits at each value of flush',
    label: 'mergeLanes([high, low], { maxSize: 2, flush })',
    inputs: { high:          '-A--------|',
              low:           '--a-------|',
              flush:         '-----f--f-|' },
    expected:                '--x-------|',
    values: { x: 'Aa by high: size' },
    build: (kit) => mergeLanes(lanesOf(kit, { high: { maxWaitMs: 50 }, low: {} }), { maxSize: 2, flush: kit.input('flush') }).pipe(map(shown)),
  },
  {
    operator: 'mergeLanes',
    title: 'flushes lanes that would wait longer',
    label: 'mergeLanes([high, low], { flush })',
    inputs: { high:          '-A--------|',
              low:           '--a-------|',
              flush:         '-----f--f-|' },
    expected:                '-----x----|',
    values: { x: 'Aa by high: flush' },
    build: (kit) => mergeLanes(lanesOf(kit, { high: { maxWaitMs: 50 }, low: {} }), { flush: kit.input('flush') }).pipe(map(shown)),
  },
];
