import { LIMITED, NAMES, type Subject, WORKING } from '../world/subjects.js';
import type { Behaviour } from '../world/work.js';

/** An operator with options and work, without acts in its callbacks. */
export interface Scenario {
  readonly subject: Subject;
  readonly name: string;
  /** What is chosen otherwise than usual, by name. */
  readonly options: Readonly<Record<string, unknown>>;
  /** What the calls do, one after the other; the last goes on. */
  readonly work: readonly Behaviour[];
  readonly limiter: boolean;
}

const call = (does: Behaviour['does'], ms: number, rest: Partial<Behaviour> = {}): Behaviour => ({ form: 'observable', ms, does, ...rest });

/** What work does. Sync is inside the call, everything else takes time. */
const WORK: Readonly<Record<string, readonly Behaviour[]>> = {
  'sync ok': [call('ok', 0)],
  'async ok': [call('ok', 3)],
  promise: [call('ok', 3, { form: 'promise' })],
  'sync 400': [call('fail', 0, { status: 400 })],
  'async 400': [call('fail', 3, { status: 400 })],
  'blames an item': [call('fail', 3, { status: 400, blames: true }), call('ok', 3)],
  '503, then ok': [call('fail', 3, { status: 503 }), call('ok', 3)],
  '503 at once': [call('fail', 0, { status: 503 })],
  throws: [call('throw', 0)],
  'never ends': [call('never', 0)],
  'a promise that never ends': [call('never', 0, { form: 'promise' })],
  'a lazy thenable': [call('ok', 3, { form: 'thenable' })],
  'a slow lazy thenable': [call('ok', 30, { form: 'thenable' })],
  'a `then` that throws': [call('thenThrows', 0, { form: 'thenable' }), call('ok', 3)],
  'a teardown that throws': [call('never', 0, { badTeardown: true }), call('ok', 3)],
  'a plain value': [call('ok', 0, { form: 'value' })],
  'two values': [call('more', 1)],
  'never, then nothing': [call('never', 0), call('nothing', 0)],
  'some fail, by name': [call('partialById', 3)],
  'nothing, then never': [call('nothing', 3), call('never', 0)],
};

const TIMED = { timeoutMs: 5 };

/** Options that make an operator come by all its events, beside the plain ones. */
const OPTIONS: Partial<Record<Subject, Readonly<Record<string, Readonly<Record<string, unknown>>>>>> = {
  batch: {
    time: { maxSize: 10 },
    weight: { maxWeight: 2 },
    late: { maxWaitMs: 0 },
  },
  batchMap: batchOptions(),
  batchMapFrom: batchOptions(),
  createBatcher: {
    ...batchOptions(),
    dedupe: { sharing: 'dedupe' },
    'two at a time': { maxSize: 1, concurrency: 2 },
    'loadManyAsync, dedupe': { sharing: 'dedupe', load: 'loadManyAsync' },
    'one name': { ids: 'same' },
    cache: { sharing: 'cache' },
    'one signal': { 'load signal': 'shared', ...TIMED },
  },
  mergeLanes: {
    'drop oldest': { maxQueued: 1, overflow: 'dropOldest' },
    latest: { maxQueued: 1, overflow: 'latest' },
    isolated: { errors: 'isolate' },
  },
  bulkheadMap: {
    ...slotOptions(),
    'per key': { perKey: 1, concurrency: 2 },
    'stop key': { perKey: 1, keyed: true, stopKey: true },
    'stop key, unheard': { perKey: 1, keyed: true, stopKey: true, heard: false, key: 'a' },
  },
  settleAll: { all: { errors: 'propagate' }, deadline: { deadlines: true }, guarded: { guard: 'no' }, 'guarded later': { guard: 'later' } },
  switchLatest: {
    keyed: { keyed: true },
  },
  hedge: { 'at once': { delayMs: 0 }, function: { delay: 'function' }, three: { maxAttempts: 4, delayMs: 1 } },
  speculate: { alternatives: { concurrency: 2 }, old: { ttlMs: 1 }, talkative: { maxQueued: 1 } },
  rateLimit: {
    'drop oldest': { maxQueued: 1, overflow: 'dropOldest', rate: 'bucket' },
    latest: { maxQueued: 1, overflow: 'latest', rate: 'bucket' },
    strict: { rate: 'strict' },
  },
  backpressure: {
    'drop oldest': { overflow: 'dropOldest' },
    'drop newest': { overflow: 'dropNewest' },
    latest: { overflow: 'latest' },
    flush: { onSourceError: 'flush' },
    ready: { ready: true },
  },
  conflateWhileBusy: {
    'drop oldest': { overflow: 'dropOldest', maxWeight: 2 },
    'drop newest': { overflow: 'dropNewest', maxWeight: 2 },
    ready: { ready: true },
  },
  coalesce: { passing: { passes: true }, incompatible: { compatible: 'key' } },
  resequence: { duplicates: { place: 0 }, skip: { maxQueued: 1 }, strict: { onGap: 'error' } },
  createLimiter: {
    bucket: { rate: 'bucket' },
    strict: { rate: 'strict' },
    child: { levels: 'child' },
    keyed: { levels: 'keyed' },
    promises: { way: 'run', 'job form': 'promise' },
    thenables: { way: 'run', 'job form': 'thenable' },
    'thenables, runAsync': { way: 'runAsync', 'job form': 'thenable', signalled: true },
    full: { 'limiter maxQueued': 1, 'limiter overflow': 'dropOldest' },
    'enforces nothing': { enforce: false, rate: 'none', slots: 1 },
    tokens: { way: 'acquire', tokens: 'many', usage: true },
  },
  createBreaker: { probes: { probes: 2 } },
  policy: { timed: TIMED, breaker: { breaker: true }, deadline: { deadlineMs: 12 }, fallback: { fallback: true } },
  createIntake: { full: { maxQueued: 1, lanes: true, 'urgent waiting': 1, 'later waiting': 1 }, lanes: { lanes: true } },
};

/** Where a plain value is an answer; elsewhere RxJS says what may be subscribed to. */
function takesValues(subject: Subject, options: Readonly<Record<string, unknown>>): boolean {
  return subject !== 'switchLatest' && subject !== 'hedge' && subject !== 'speculate' && options['errors'] !== 'propagate';
}

function batchOptions(): Readonly<Record<string, Readonly<Record<string, unknown>>>> {
  return {
    timed: { ...TIMED, repair: 'both' },
    'one by one': { maxSize: 1, repair: 'both' },
    full: { maxQueued: 1, overflow: 'dropOldest', maxSize: 1 },
    'full, latest': { maxQueued: 1, overflow: 'latest', maxSize: 1 },
    held: { window: 'never', maxSize: 5, maxQueued: 1, overflow: 'dropOldest' },
    asked: { window: 'asked', maxSize: 5, changing: true },
    ordered: { order: 'input', maxSize: 1, concurrency: 2, repair: 'retry' },
    lanes: { lanes: true, order: 'perKey', repair: 'sequential' },
    deadlines: { deadlines: true, splits: true, maxWeight: 2 },
    divided: { repair: 'divide', classify: 'itemFault', timeoutMs: 5 },
    drained: { onSourceError: 'drain', repair: 'both' },
    'failing source': { fails: true, window: 'never', maxSize: 10 },
    'one name': { ids: 'same' },
    unheard: { heard: false, maxQueued: 1, overflow: 'dropOldest' },
  };
}

function slotOptions(): Readonly<Record<string, Readonly<Record<string, unknown>>>> {
  return {
    timed: TIMED,
    full: { maxQueued: 1, overflow: 'dropOldest' },
    'full, latest': { maxQueued: 1, overflow: 'latest' },
    'too late': { concurrency: 1, deadlineMs: 3 },
    ordered: { order: 'input', concurrency: 2 },
    propagate: { errors: 'propagate' },
    unheard: { heard: false },
    'unheard, full': { heard: false, maxQueued: 1, overflow: 'dropOldest' },
    drained: { onSourceError: 'drain' },
    'failing source': { fails: true, concurrency: 1 },
  };
}

export function scenarios(): Scenario[] {
  const all: Scenario[] = [];
  for (const subject of NAMES) {
    const works = WORKING.includes(subject) ? Object.entries(WORK) : ([['', [call('ok', 0)]]] as const);
    for (const [variant, options] of Object.entries({ plain: {}, ...OPTIONS[subject] })) {
      const shares = LIMITED.includes(subject) && SHARED.has(variant);
      for (const limiter of subject === 'rateLimit' ? [true] : shares ? [false, true] : [false]) {
        for (const [workName, work] of works) {
          if (workName === 'a plain value' && !takesValues(subject, options)) continue;
          const name = [subject, variant, limiter && shares ? 'shared limiter' : '', workName].filter(Boolean).join(', ');
          all.push({ subject, name, options, work, limiter });
        }
      }
    }
  }
  return all;
}

/** Variants that are tried with a shared limiter as well. */
const SHARED: ReadonlySet<string> = new Set(['plain', 'timed', 'propagate', 'unheard', 'stop key, unheard']);
