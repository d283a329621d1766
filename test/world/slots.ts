import * as make from '../../operators/index.js';
import type { Script } from './batches.js';
import type { SharedLimiter } from './limits.js';
import { Pipe, Results, type Supply } from './pipe.js';
import { Width } from './width.js';
import { Calls, type Item, valueOf } from './work.js';
import type { World } from './world.js';

type Overflow = 'error' | 'dropOldest' | 'dropNewest' | 'latest';

/** `bulkheadMap`. */
export function slotsActor(world: World, supply: Supply, script: Script, limiter: SharedLimiter | undefined): Pipe {
  const { choose } = world;
  const form = 'bulkheadMap';
  const pipe = new Pipe(world, form, supply);
  const { callback, onEvent, timers } = pipe;
  const width = new Width(world, choose('concurrency', 1, 2, 3), choose('changing', false, true));
  const order = choose<'completion' | 'input' | 'perKey'>('order', 'completion', 'input', 'perKey');
  const propagates = choose('errors', 'settle', 'settle', 'propagate') === 'propagate';
  const keyed = order === 'perKey' || choose('keyed', true, false);
  const perKey = choose('perKey', Infinity, 1, 2);
  const overflow = choose<Overflow>('overflow', 'error', 'dropOldest', 'dropNewest', 'latest');
  const calls: Calls = new Calls(
    world,
    {
      actor: pipe.index,
      over: () => pipe.over(),
      limit: () => (limiter ? limiter.most : width.most),
      ...(keyed && { keyLimit: () => perKey }),
      settled: ({ n }) => results.settled.has(n),
      ...(limiter && { limiter }),
    },
    script,
  );
  const results = new Results(pipe, order, (item, reason) => {
    calls.checkReason(item, reason);
  });
  pipe.calls = calls;
  const maxQueued = choose('maxQueued', 100, 0, 1, 2);
  const maxKeys = choose('maxKeys', Infinity, Infinity, 1, 2);
  pipe.onFinish = () => {
    if (Math.min(maxQueued, maxKeys) > pipe.sent.length && make.isFlowError(pipe.failure, 'FLOW_OVERFLOW'))
      world.problem(`${form} overflows where there is room`);
    if (!propagates) results.finish();
    if (pipe.life !== 'open' && width.observed) world.problem(`${pipe.name} keeps the concurrency`);
  };
  const common = {
    scheduler: timers,
    // Without a listener for events, results go out at once.
    ...(choose('heard', true, true, false) && { onEvent }),
    ...(limiter ? { limiter: limiter.limiter } : { concurrency: width.option }),
    maxQueued,
    ...(keyed && { maxKeys }),
    timeoutMs: choose('timeoutMs', 1000, 5, 20),
    deadlineMs: choose('deadlineMs', 1000, 1000, 8),
    onSourceError: choose<'abort' | 'flush' | 'drain'>('onSourceError', 'abort', 'flush', 'drain'),
    ...(order === 'input' && { order: make.inputOrder() }),
  };
  const key = callback('key', (item: Item) => item.key);
  const stopsKey = keyed && !propagates && choose('stopKey', false, true);
  const stopped = new Set<string>();
  const begin = calls.singles();
  const work: typeof begin = (item, context) => {
    if (stopped.has(item.key)) world.problem(`${form} calls an item whose key was stopped`);
    return begin(item, context);
  };
  Object.assign(pipe.acts, {
    limits: () => {
      width.change(width.now === 1 ? 2 : 1);
    },
    ...limiter?.shared,
  });
  pipe.start(
    (source) => {
      const options: make.BulkheadMapOptions<Item> = {
        ...common,
        ...(keyed ? { key } : {}),
        ...(keyed && perKey !== Infinity && { perKey: choose('perKey given', false, true) ? callback('perKey', () => perKey) : perKey }),
        ...(order === 'perKey' && { order: make.orderPerKey(key) }),
        overflow,
      };
      return propagates
        ? source.pipe(make.bulkheadMap<Item, string>(work, { ...options, errors: 'propagate' }))
        : source.pipe(make.bulkheadMap<Item, string>(work, { ...options, errors: 'settle', ...(stopsKey && { stopKey: true }) }));
    },
    propagates
      ? (value) => {
          if (!pipe.sent.some((item) => valueOf(item) === value)) world.problem(`${form} emits ${String(value)}`);
        }
      : (value) => {
          const { status, attempts, input } = value as make.Settled<Item, string>;
          if (stopsKey && status === 'rejected' && attempts > 0) stopped.add(input.key);
          results.read(value);
        },
    choose('first', 0, 3),
  );
  return pipe;
}
