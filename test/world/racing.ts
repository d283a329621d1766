import { of, Subject } from 'rxjs';
import { HedgeStats, hedgeWith } from '../../operators/hedge.js';
import * as make from '../../operators/index.js';
import type { Script } from './batches.js';
import type { SharedLimiter } from './limits.js';
import { Pipe, type Supply } from './pipe.js';
import { listOf, type Shot, Shots } from './shots.js';
import { Calls, type Item, valueOf } from './work.js';
import type { World } from './world.js';

export function switchLatestActor(world: World, supply: Supply, script: Script): Pipe {
  const { choose } = world;
  const pipe = new Pipe(world, 'switchLatest', supply);
  const keyed = choose('keyed', false, true);
  const calls = new Calls(
    world,
    { actor: pipe.index, over: () => pipe.over(), limit: () => (keyed ? Infinity : 1), keyLimit: () => 1 },
    script,
  );
  if (!keyed) Object.assign(calls.rules, { keyLimit: undefined });
  pipe.calls = calls;
  pipe.onFinish = () => {
    if (pipe.life !== 'completed') return;
    const newest = new Map(pipe.sent.map((item) => [keyed ? item.key : '', item]));
    for (const item of newest.values())
      if (!calls.all.some(({ items }) => items[0]?.n === item.n)) world.problem('switchLatest: the newest item is never called');
  };
  pipe.start(
    (source) =>
      source.pipe(
        make.switchLatest<Item, string>(calls.singles(), {
          scheduler: pipe.timers,
          onEvent: pipe.onEvent,
          onSourceError: choose('onSourceError', 'abort', 'flush', 'drain'),
          ...(keyed && { key: pipe.callback('key', ({ key }: Item) => key) }),
        }),
      ),
    (value) => {
      if (!calls.all.some(({ items }) => valueOf(items[0]!) === value)) world.problem(`switchLatest emits ${String(value)}`);
    },
    choose('first', 0, 3),
  );
  return pipe;
}

export function hedgeActor(world: World, supply: Supply, script: Script, limiter: SharedLimiter | undefined): Shots {
  const { choose } = world;
  const shots = new Shots(world, 'hedge', script);
  const stats = new HedgeStats();
  const maxAttempts = choose('maxAttempts', 2, 3, 4);
  shots.rules = { limit: () => maxAttempts, repeats: true, ...(limiter && { limiter }) };
  const options = {
    scheduler: shots.timers,
    onEvent: shots.onEvent,
    maxAttempts,
    delayMs: choose('delay', 'number', 'function') === 'number' ? choose('delayMs', 3, 0, 20) : shots.callback('delayMs', () => 3),
    classify: shots.callback('classify', make.classifyError),
    ...(limiter && { limiter: limiter.limiter }),
  };
  shots.begin = (shot) => {
    const item = supply.next();
    return {
      answer: hedgeWith<unknown>(stats, (_attempt, context) => shot.calls.make([item], context.signal, () => valueOf(item)), options),
      ended: () => {
        checkValues(world, shot, [valueOf(item)]);
      },
    };
  };
  shots.onCheck = () => {
    if (Math.min(stats.calling, stats.hedging) < 0) world.problem('hedge counts below zero');
  };
  shots.onFinish = () => {
    if (stats.calling !== 0 || stats.hedging !== 0)
      world.problem(`hedge counts ${stats.calling} calling and ${stats.hedging} hedging at the end`);
  };
  Object.assign(shots.acts, limiter?.shared);
  return shots;
}

function checkValues(world: World, { out, calls }: Shot, allowed: readonly string[]): void {
  const quiet = calls.all.some(({ does }) => does.does === 'nothing');
  if (out.length === 0 && !quiet) world.problem('a call ends without its value');
  for (const value of out) if (!allowed.includes(value as string)) world.problem(`a call says ${String(value)}`);
}

export function policyActor(world: World, supply: Supply, script: Script, limiter: SharedLimiter | undefined): Shots {
  const { choose } = world;
  const shots = new Shots(world, 'policy', script);
  const breaker = choose('breaker', false, true) ? makeBreaker(shots) : undefined;
  const shared = new AbortController();
  const hasFallback = choose('fallback', false, true);
  shots.rules = { limit: () => 1, ...(limiter && { limiter }) };
  const call = make.policy<string>({
    scheduler: shots.timers,
    onEvent: shots.onEvent,
    timeoutMs: choose('timeoutMs', 1000, 5, 20),
    deadlineMs: choose('deadlineMs', Infinity, Infinity, 12, 60),
    random: shots.callback('random', () => 0.5),
    classify: shots.callback('classify', make.classifyError),
    ...(choose('repair', 'retry', 'none') === 'retry' && {
      retry: make.retryFailed({ delayMs: choose('pauseMs', 7, 1, 50), jitter: 'none', maxAttempts: 3, maxShare: 0.2 }),
    }),
    ...(limiter && { limiter: limiter.limiter }),
    ...(breaker && { breaker: breaker.breaker }),
    ...(hasFallback && { fallback: shots.callback('fallback', () => of('fallback')) }),
  });
  shots.begin = (shot) => {
    const item = supply.next();
    const own = new AbortController();
    const by = choose<'none' | 'own' | 'shared'>(`signal ${shot.n}`, 'none', 'none', 'own', 'shared');
    const signal = by === 'none' ? undefined : by === 'own' ? own.signal : shared.signal;
    return {
      answer: call((context) => shot.calls.make([item], context.signal, () => valueOf(item)) as never, signal && { signal }),
      ...(by === 'own' && {
        abort: () => {
          own.abort();
        },
      }),
      ended: () => {
        checkValues(world, shot, hasFallback ? [valueOf(item), 'fallback'] : [valueOf(item)]);
      },
    };
  };
  Object.assign(shots.acts, limiter?.shared, breaker?.acts, {
    abort: () => {
      shared.abort();
    },
  });
  shots.onCheck = breaker?.check ?? shots.onCheck;
  shots.onFinish = breaker?.finish ?? shots.onFinish;
  return shots;
}

function makeBreaker(shots: Shots) {
  const { world } = shots;
  const breaker = make.createBreaker({
    scheduler: shots.timers,
    onEvent: shots.onEvent,
    opens: { minCalls: world.choose('minCalls', 2, 1, 3) },
    openMs: 15,
    closes: { probes: world.choose('probes', 1, 2) },
    classify: shots.callback('classify', make.classifyError),
  });
  let trips = 0;
  return {
    breaker,
    acts: {
      limits: () => {
        if (trips++ % 2 === 0) breaker.trip();
        else breaker.reset();
      },
    },
    check: () => {
      const { calls, failures, probing } = breaker.snapshot();
      if (Math.min(calls, failures, probing) < 0) world.problem('the breaker counts below zero');
    },
    finish: () => {
      if (breaker.snapshot().probing !== 0) world.problem('the breaker waits for a probe at the end');
    },
  };
}

export function breakerActor(world: World, supply: Supply, script: Script): Shots {
  const shots = new Shots(world, 'createBreaker', script);
  const { breaker, acts, check, finish } = makeBreaker(shots);
  shots.rules = { limit: () => 1 };
  shots.begin = (shot) => {
    const item = supply.next();
    const work = ({ signal }: { readonly signal: AbortSignal }): never => shot.calls.make([item], signal, () => valueOf(item)) as never;
    const ended = (): void => {
      checkValues(world, shot, [valueOf(item)]);
    };
    return { answer: breaker.run<string>(work), ended };
  };
  Object.assign(shots.acts, acts);
  shots.onCheck = check;
  shots.onFinish = finish;
  return shots;
}

export function settleAllActor(world: World, supply: Supply, script: Script): Shots {
  const { choose } = world;
  const shots = new Shots(world, 'settleAll', script);
  const concurrency = choose('concurrency', 1, 2, 4);
  const guards = choose('guard', 'yes', 'no', 'later');
  shots.rules = { limit: () => concurrency };
  shots.begin = (shot) => {
    const items = listOf(supply, choose(`size ${shot.n}`, 3, 0, 1, 5));
    return {
      answer: make.settleAll<Item, string>(items, shot.calls.singles(), {
        scheduler: shots.timers,
        onEvent: shots.onEvent,
        concurrency,
        errors: choose('errors', 'settle', 'propagate'),
        ...(choose('deadlines', false, false, true) && { deadlineMs: choose('deadlineMs', 6, 3, 20) }),
        guard: shots.callback('guard', ({ n }: Item) => {
          const goes = guards === 'yes' || n % 3 !== 2;
          return guards === 'later' ? Promise.resolve(goes) : goes;
        }),
      }),
      ended: () => {
        checkList(world, shot, items);
      },
    };
  };
  return shots;
}

/** One list, with one result for every item, in their order. */
function checkList(world: World, { out, calls }: Shot, items: readonly Item[]): void {
  const list = out[0] as readonly make.Settled<Item, string>[] | undefined;
  if (out.length !== 1 || list?.length !== items.length) {
    world.problem(`a list of ${items.length} is answered with ${out.length} of ${String(list?.length)}`);
    return;
  }
  list.forEach((settled, i) => {
    if (settled.input !== items[i]) world.problem('a result stands in the place of another');
    if (settled.status === 'rejected') calls.checkReason(items[i]!, settled.reason);
    else if ((settled.value as unknown) !== undefined && settled.value !== valueOf(items[i]!))
      world.problem('an item gets the result of another');
  });
}

export function speculateActor(world: World, supply: Supply, script: Script): Pipe {
  const { choose } = world;
  const pipe = new Pipe(world, 'speculate', supply);
  const predict = new Subject<Item>();
  const confirmed: Item[] = [];
  let toggle = 0;
  pipe.put = (item) => {
    if (choose(`confirms ${item.n}`, toggle++ % 2 === 1, true, false)) {
      confirmed.push(item);
      pipe.push(item);
    } else predict.next(item);
  };
  const concurrency = choose('concurrency', 1, 2);
  const calls = new Calls(world, { actor: pipe.index, over: () => pipe.over(), limit: () => Infinity }, script);
  pipe.calls = calls;
  pipe.onFinish = () => {
    if (predict.observed) world.problem('speculate keeps its predictions');
    const quiet = calls.all.some(({ does }) => does.does === 'nothing');
    if (pipe.life === 'completed' && !quiet && pipe.out.length < confirmed.length)
      world.problem(`speculate answers ${pipe.out.length} of ${confirmed.length} calls`);
  };
  const run = calls.singles();
  pipe.start(
    (confirm) =>
      make.speculate<Item, string>(run, {
        scheduler: pipe.timers,
        onEvent: pipe.onEvent,
        predict,
        confirm,
        match: pipe.callback(
          'match',
          (predicted: Item, wanted: Item) => predicted.key === wanted.key || choose('matches', true, true, false),
        ),
        concurrency,
        maxQueued: choose('maxQueued', 1000, 1000, 1),
        ttlMs: choose('ttlMs', 30_000, 10),
      }),
    (value) => {
      if (!calls.all.some(({ items }) => valueOf(items[0]!) === value)) world.problem(`speculate emits ${String(value)}`);
    },
  );
  return pipe;
}
