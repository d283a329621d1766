import { Subject } from 'rxjs';
import type { FlowEvent } from '../../operators/index.js';
import * as make from '../../operators/index.js';
import { batchOptions, type Script } from './batches.js';
import { Timers } from './clock.js';
import type { SharedLimiter } from './limits.js';
import type { Puts, Supply } from './pipe.js';
import { Story } from './story.js';
import { Width } from './width.js';
import { Calls, type Item, valueOf } from './work.js';
import type { Act, Actor, World } from './world.js';

type Way = 'load' | 'loadAsync' | 'loadSettled' | 'loadManyAsync';

interface Load {
  readonly item: Item;
  readonly way: Way;
  state: 'waiting' | 'settled' | 'left';
  leave: () => void;
}

/** A batcher with its callers. */
export class BatcherActor implements Actor {
  readonly name = 'createBatcher';
  readonly timers: Timers;
  readonly #story: Story;
  readonly acts: Partial<Record<Act, () => void>>;
  readonly index: number;
  readonly #batcher: ReturnType<typeof make.createBatcher<Item, string>>;
  readonly #calls: Calls;
  readonly #loads: Load[] = [];
  readonly #flush = new Subject<void>();
  /** When items have settled: a batch that has just been formed may still have one. */
  readonly #settledAt = new Map<number, number>();
  readonly #width: Width;
  /** One signal for many loads. */
  readonly #shared = new AbortController();
  readonly #listeners = new Set<unknown>();
  readonly #dedupes: boolean;
  #closed: 'open' | 'draining' | 'closed' = 'open';
  #drains = 0;
  #drained = 0;
  #told = 0;

  constructor(
    readonly world: World,
    readonly supply: Supply,
    script: Script,
    limiter: SharedLimiter | undefined,
  ) {
    const { choose } = world;
    this.index = world.actors.length;
    world.actors.push(this);
    this.timers = new Timers(world.clock);
    this.#story = new Story(world, 'createBatcher');
    const callback: Puts['callback'] =
      (place, answer) =>
      (...given) => {
        world.at(place, this.index);
        return answer(...given);
      };
    const onEvent = (event: FlowEvent): void => {
      const { type } = event;
      this.#story.told(event);
      if (type === 'drained' && ++this.#told > 1) world.problem('`drained` is told twice');
      world.at(`event:${type}`, this.index);
    };
    this.#width = new Width(world, choose('concurrency', 1, 2, 3), choose('changing', false, true));
    const { options, isFinal, divides } = batchOptions(
      world,
      { onEvent, callback, timers: this.timers },
      this.#width,
      limiter,
      this.#flush,
    );
    const sharing = choose<'none' | 'dedupe' | 'cache'>('sharing', 'none', 'dedupe', 'cache');
    this.#dedupes = sharing !== 'none';
    this.#calls = new Calls(
      world,
      {
        actor: this.index,
        over: () => this.#over(),
        isFinal,
        divides,
        limit: () => (limiter ? limiter.most : this.#width.most),
        settled: ({ n }) =>
          sharing === 'none' &&
          this.#loads.some(({ item, state }) => item.n === n && state === 'settled') &&
          this.#settledAt.get(n) !== world.clock.passed,
        left: ({ n }) => sharing === 'none' && this.#loads.some(({ item, state }) => item.n === n && state !== 'waiting'),
        ...(limiter && { limiter }),
      },
      script,
    );
    this.#batcher = make.createBatcher<Item, string>(this.#calls.batches(), {
      ...options,
      ...(this.#dedupes && { dedupe: callback('dedupe', ({ key }: Item) => key) }),
      ...(sharing === 'cache' && {
        cache: make.lruCache(choose('maxEntries', 2, 1, 100), { ttlMs: choose('ttlMs', 30, Infinity, 5) }),
      }),
    });
    this.#watchShared();
    this.acts = {
      send: () => {
        this.#send();
      },
      leave: () => {
        this.#loads.findLast(({ state }) => state === 'waiting')?.leave();
      },
      flush: () => {
        if (choose(`flush ${world.sprung}`, true, false)) this.#batcher.flush();
        else this.#flush.next();
      },
      drain: () => {
        this.#drain();
      },
      close: () => {
        this.#close();
      },
      abort: () => {
        this.#shared.abort();
      },
      limits: () => {
        this.#width.change(this.#width.now === 1 ? 2 : 1);
      },
      // Its own `drain` and `close` go before those of the limiter.
      ...(limiter && { limits: limiter.shared.limits!, pause: limiter.shared.pause! }),
    };
  }

  /** After `close` nothing is called any more, nor after `drained` was told. */
  #over(): string | undefined {
    if (this.#closed === 'closed') return 'close()';
    return this.#told > 0 ? '`drained`' : undefined;
  }

  #drain(): void {
    if (this.#closed === 'open') this.#closed = 'draining';
    this.#drains++;
    void this.#batcher.drain().then(() => {
      this.#drained++;
      this.world.at('drained', this.index);
      // A promise is heard of in its own turn.
      for (const { item, state, way } of this.#loads)
        if (
          state === 'waiting' &&
          way !== 'loadAsync' &&
          way !== 'loadManyAsync' &&
          this.#calls.all.some((call) => call.items.includes(item))
        )
          this.world.problem('drain resolves before all has settled');
    });
  }

  #close(): void {
    this.#closed = 'closed';
    this.#batcher.close();
  }

  #watchShared(): void {
    const { signal } = this.#shared;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (type: string, listener: never, options?: never): void => {
      this.#listeners.add(listener);
      add(type, listener, options);
    };
    signal.removeEventListener = (type: string, listener: never): void => {
      this.#listeners.delete(listener);
      remove(type, listener);
    };
  }

  #send(): void {
    const { world } = this;
    const first = this.supply.next();
    const n = first.n;
    const way = world.choose<Way>(`load ${n}`, 'load', 'load', 'loadAsync', 'loadSettled', 'loadManyAsync');
    const signalled = world.choose<'none' | 'own' | 'shared'>(`load signal ${n}`, way === 'loadAsync' ? 'own' : 'none', 'own', 'shared');
    const own = new AbortController();
    const signal = signalled === 'none' ? undefined : signalled === 'own' ? own.signal : this.#shared.signal;
    const deadline = world.choose(`load deadline ${n}`, Infinity, Infinity, 12);
    const lane = world.choose(`load lane ${n}`, false, false, true) && world.choose('lanes', false, true);
    const options = {
      ...(signal && { signal }),
      ...(deadline !== Infinity && { deadlineMs: deadline }),
      ...(lane && { lane: 'urgent' }),
    };
    const items = way === 'loadManyAsync' ? [first, this.supply.next()] : [first];
    const loads = items.map((item): Load => ({ item, way, state: 'waiting', leave: () => undefined }));
    this.#loads.push(...loads);
    world.say(`${way} ${items.map(valueOf).join(' ')} signal ${signalled} key ${first.key}${first.poison ? ' poison' : ''}`);
    const abort = (): void => {
      own.abort();
    };
    const load = loads[0]!;
    if (way === 'loadManyAsync') {
      for (const each of loads) if (signalled === 'own') each.leave = abort;
      void this.#batcher.loadManyAsync(items, options).then((all) => {
        if (all.length !== loads.length) world.problem(`loadManyAsync answers ${all.length} of ${loads.length}`);
        all.forEach((settled, i) => {
          world.try(() => {
            this.#given(loads[i]!, settled);
          });
        });
      });
    } else if (way === 'loadAsync') {
      if (signalled === 'own') load.leave = abort;
      this.#batcher.loadAsync(first, options).then(
        (value) => {
          this.#ok(load, value);
        },
        (error: unknown) => {
          this.#bad(load, error);
        },
      );
    } else if (way === 'load') {
      let values = 0;
      const subscription = this.#batcher.load(first, options).subscribe({
        next: (value) => {
          values++;
          this.#ok(load, value);
        },
        error: (error: unknown) => {
          this.#bad(load, error);
        },
        complete: () => {
          if (values !== 1) world.problem(`a load completes with ${values} values`);
        },
      });
      this.#left(load, signalled === 'own', own, subscription);
    } else {
      const subscription = this.#batcher.loadSettled(first, options).subscribe({
        next: (settled) => {
          this.#given(load, settled);
        },
        error: (error: unknown) => {
          world.problem(`loadSettled errors: ${String(error)}`);
        },
      });
      this.#left(load, signalled === 'own', own, subscription);
    }
  }

  #left(load: Load, bySignal: boolean, own: AbortController, subscription: { unsubscribe(): void }): void {
    load.leave = () => {
      if (bySignal) {
        own.abort();
        return;
      }
      if (load.state === 'waiting') load.state = 'left';
      subscription.unsubscribe();
    };
  }

  #given(load: Load, settled: make.Settled<Item, string>): void {
    if (settled.input !== load.item) this.world.problem('a load is told the input of another');
    if (settled.status === 'fulfilled') this.#ok(load, settled.value);
    else this.#bad(load, settled.reason);
  }

  #ok(load: Load, value: unknown): void {
    this.#settle(load);
    const isOwn = value === valueOf(load.item);
    // Who shares an item has the value of another with the same key.
    const isShared = this.#dedupes && this.#loads.some(({ item }) => item.key === load.item.key && valueOf(item) === value);
    if (!isOwn && !isShared) this.world.problem(`a load gets ${String(value)}, which is not its own`);
    this.world.at('settled', this.index);
  }

  #bad(load: Load, reason: unknown): void {
    this.#settle(load);
    if (!this.#dedupes) this.#calls.checkReason(load.item, reason);
    this.world.at('settled', this.index);
  }

  #settle(load: Load): void {
    if (this.world.log) this.world.say(`settled ${valueOf(load.item)}`);
    if (load.state === 'settled') this.world.problem('a load settles twice');
    if (load.state === 'left') this.world.problem('a load settles after it has left');
    load.state = 'settled';
    this.#settledAt.set(load.item.n, this.world.clock.passed);
  }

  check(): void {
    const { queued, executing, heldBack, cached } = this.#batcher.snapshot();
    if (Math.min(queued, executing, heldBack, cached) < 0) this.world.problem('the batcher counts below zero');
  }

  rest(): void {
    const { executing } = this.#batcher.snapshot();
    if (executing < this.#calls.open) this.world.problem(`the batcher counts ${executing} calls, ${this.#calls.open} are open`);
    if (this.#closed === 'closed' && this.#calls.open > 0) this.world.problem(`close() leaves ${this.#calls.open} call(s)`);
    if (this.#closed !== 'closed') return;
    for (const { state, way } of this.#loads)
      if (state === 'waiting' && way !== 'loadManyAsync') this.world.problem(`close() leaves a ${way} unsettled`);
  }

  get open(): number {
    return this.#calls.open;
  }

  end(): void {
    this.#drain();
  }

  giveUp(isStuck: boolean): void {
    if (isStuck && this.#drained < this.#drains) this.world.problem('drain never resolves');
    if (isStuck) for (const { way, state } of this.#loads) if (state === 'waiting') this.world.problem(`a ${way} never settles`);
    this.#close();
  }

  finish(): void {
    this.#story.finish();
    for (const { way, state } of this.#loads) if (state === 'waiting') this.world.problem(`a ${way} never settles, not even by close()`);
    if (this.#drained < this.#drains) this.world.problem('drain never resolves, not even by close()');
    if (this.world.choose('heard', true, true, false) && this.#told !== 1) this.world.problem(`\`drained\` is told ${this.#told} times`);
    const { queued, executing, heldBack } = this.#batcher.snapshot();
    if (queued + executing + heldBack !== 0)
      this.world.problem(`the batcher counts ${queued} waiting, ${executing} executing, ${heldBack} held back at the end`);
    if (this.timers.live > 0) this.world.problem(`the batcher leaves ${this.timers.live} timer(s)`);
    if (this.#listeners.size > 0) this.world.problem(`the batcher leaves ${this.#listeners.size} listener(s) on a signal`);
    if (this.#flush.observed) this.world.problem('the batcher keeps its flushes');
    if (this.#width.observed) this.world.problem('the batcher keeps the concurrency');
    if (this.#calls.open > 0) this.world.problem(`the batcher leaves ${this.#calls.open} call(s)`);
  }
}
