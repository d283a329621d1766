import { Subject } from 'rxjs';
import * as make from '../../operators/index.js';
import { lane } from './lanes.js';
import type { SharedLimiter } from './limits.js';
import { Pipe, type Puts, Results, type Supply } from './pipe.js';
import { Pull } from './pull.js';
import { Width } from './width.js';
import { type Behaviour, Calls, type Item } from './work.js';
import { scramble, type World } from './world.js';

/** What the calls of an actor do, one after the other. */
export type Script = (no: number) => Behaviour;

/** The options that batches have in common, in `batchMap`, `batchMapFrom` and `createBatcher`. */
export function batchOptions(
  world: World,
  puts: Puts,
  width: Width,
  limiter: SharedLimiter | undefined,
  flush: Subject<void>,
  isPulled = false,
) {
  const { choose } = world;
  const { onEvent, callback, timers } = puts;
  const order = choose<'completion' | 'input' | 'perKey'>('order', 'completion', 'completion', 'input', 'perKey');
  const hasLanes = choose('lanes', false, true);
  const overflow = choose<'error' | 'dropOldest' | 'dropNewest' | 'latest' | 'dropLowest'>(
    'overflow',
    'error',
    'dropOldest',
    'dropNewest',
    'latest',
    'dropLowest',
  );
  const deadlineMs = choose('deadlines', false, false, true) ? choose('deadlineMs', 12, 4, 60) : Infinity;
  const classify = choose<'default' | 'itemFault' | 'transient'>('classify', 'default', 'default', 'itemFault', 'transient');
  const options: make.BatcherOptions<Item, string> = {
    scheduler: timers,
    random: callback('random', () => 0.5),
    ...(choose('heard', true, true, false) && { onEvent }),
    maxSize: choose('maxSize', 2, 1, 3, 10),
    maxQueued: choose('maxQueued', 100, 1, 2, 5),
    overflow: overflow === 'dropLowest' && !hasLanes ? 'dropNewest' : overflow,
    timeoutMs: choose('timeoutMs', 1000, 5, 20),
    ...(limiter ? { limiter: limiter.limiter } : { concurrency: width.option }),
    ...(choose('weighs', true, false) && {
      weigh: callback('weigh', ({ weight }: Item) => weight),
      maxWeight: choose('maxWeight', 100, 2, 4),
    }),
    ...(choose('named', true, true, false) && { id: callback('id', ({ id }: Item) => id) }),
    ...(order === 'input' && { order: make.inputOrder() }),
    ...(order === 'perKey' && { order: make.orderPerKey(callback('key', ({ key }: Item) => key)) }),
    ...(hasLanes && {
      queue: make.lanes([{ ...lane(world, 'urgent', isPulled), maxWaitMs: 0 }, lane(world, 'later', isPulled)], {
        by: callback('lane', ({ lane }: Item) => lane),
        ...(choose('sharing', false, true) && { key: callback('lane.key', ({ key }: Item) => key) }),
        fairness: choose('fairness', make.strictWithFloor(), make.weighted(), make.roundRobin()),
      }),
    }),
    ...repairOf(world),
    window: windowOf(world, puts),
    ...(deadlineMs !== Infinity && { deadlineMs: callback('deadlineMs', () => deadlineMs) }),
    ...(choose('splits', false, false, true) && { oversize: splitting(world, puts) }),
    classify: callback('classify', (error, context) => (classify === 'default' ? make.classifyError(error, context) : { class: classify })),
    flush,
  };
  const divides = classify === 'default' && ['divide', 'both', 'sequential'].includes(choose(...REPAIR));
  return { order, options, isFinal: classify === 'default', divides, deadlineMs };
}

const REPAIR = ['repair', 'none', 'retry', 'divide', 'both', 'sequential'] as const;

function repairOf({ choose }: World): Pick<make.BatcherOptions<Item, string>, 'repair'> {
  const repair = choose(...REPAIR);
  const again = make.retryFailed({ delayMs: choose('pauseMs', 7, 1, 3, 50), maxAttempts: choose('attempts', 3, 2, 5), jitter: 'none' });
  switch (repair) {
    case 'none':
      return {};
    case 'retry':
      return { repair: again };
    case 'divide':
      return { repair: make.divideAndConquer() };
    case 'sequential':
      return { repair: make.divideAndConquer({ strategy: make.sequentialSearch() }) };
    case 'both':
      return { repair: [again, make.divideAndConquer()] };
  }
}

function windowOf({ choose }: World, { callback }: Puts): make.Window {
  switch (choose<'natural' | 'fixed' | 'graded' | 'asked' | 'never'>('window', 'natural', 'natural', 'fixed', 'graded', 'asked', 'never')) {
    case 'natural':
      return make.natural();
    case 'fixed':
      return make.fixed(choose('windowMs', 10, 1, 3));
    case 'graded':
      return make.graded(10);
    case 'asked':
      return callback('window', () => 4);
    case 'never':
      return callback('window', () => 1_000_000);
  }
}

/** Items that are too heavy go in two parts. */
function splitting(world: World, { callback }: Puts) {
  return make.splitItem<Item, string>(
    callback('splitItem.into', (item: Item) => [1, 2].map((part) => ({ ...item, weight: Math.ceil(item.weight / 2), part: `/${part}` }))),
    callback('splitItem.join', (results: readonly string[]) => {
      const [first = '', second = ''] = results;
      const whole = first.split('/')[0] ?? '';
      if (results.length !== 2 || first !== `${whole}/1` || second !== `${whole}/2`)
        world.problem(`parts joined wrongly: ${results.join()}`);
      return whole;
    }),
  );
}

export function batchMapActor(
  world: World,
  supply: Supply,
  script: Script,
  limiter: SharedLimiter | undefined,
  form: 'batchMap' | 'batchMapFrom',
): Pipe {
  const { choose } = world;
  const pipe = new Pipe(world, form, supply);
  const width = new Width(world, choose('concurrency', 1, 2, 3), choose('changing', false, true));
  const flush = new Subject<void>();
  const {
    order,
    options: common,
    isFinal,
    divides,
    deadlineMs,
  } = batchOptions(world, pipe, width, limiter, flush, form === 'batchMapFrom');
  const options = { ...common, onSourceError: choose('onSourceError', 'abort', 'flush', 'drain') };
  const calls: Calls = new Calls(
    world,
    {
      actor: pipe.index,
      over: () => pipe.over(),
      isFinal,
      divides,
      keepsWhole: isFinal && order === 'completion' && deadlineMs === Infinity,
      limit: () => (limiter ? limiter.most : width.most),
      settled: ({ n }) => results.settled.has(n),
      ...(limiter && { limiter }),
      ...(options.weigh && options.oversize === undefined && { maxWeight: options.maxWeight ?? Infinity }),
    },
    script,
  );
  const results = new Results(
    pipe,
    order,
    (item, reason) => {
      calls.checkReason(item, reason);
    },
    deadlineMs,
  );
  pipe.calls = calls;
  pipe.abortsAtOnce = true;
  results.ordersSent = form === 'batchMap';
  pipe.onFinish = () => {
    results.finish();
    if (pipe.life !== 'open' && flush.observed) world.problem(`${pipe.name} keeps its flushes`);
    if (pipe.life !== 'open' && width.observed) world.problem(`${pipe.name} keeps the concurrency`);
  };
  Object.assign(pipe.acts, {
    flush: () => {
      flush.next();
    },
    limits: () => {
      width.change(width.most === 1 ? 2 : 1);
    },
    ...limiter?.shared,
  });
  const work = calls.batches();
  if (form === 'batchMap') pipe.start((source) => source.pipe(make.batchMap(work, options)), results.read, choose('first', 0, 3));
  else {
    const { overflow: _, ...pulled } = options;
    const pull = new Pull(pipe);
    pipe.start(() => make.batchMapFrom(pull.open(), work, pulled), results.read);
  }
  scramble(options);
  return pipe;
}
