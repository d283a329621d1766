import { from, merge, type Observable, Subject, type Subscription, takeUntil } from 'rxjs';
import type { FlowEvent } from '../../operators/index.js';
import { Timers } from './clock.js';
import { Story } from './story.js';
import { type Calls, type Item, isNamed, valueOf, WorkError } from './work.js';
import type { Act, Actor, World } from './world.js';

/** What an actor puts into its options: the clock, and callbacks that are places. */
export type Puts = Pick<Pipe, 'onEvent' | 'callback' | 'timers'>;

export type Life = 'open' | 'completed' | 'errored' | 'left';

interface SettledLike {
  readonly status: 'fulfilled' | 'rejected';
  readonly value?: unknown;
  readonly reason?: unknown;
  readonly input: Item;
  readonly index: number;
}

/** Makes the items of a schedule, numbered through. */
export class Supply {
  #n = 0;
  constructor(readonly world: World) {}

  next(): Item {
    const n = this.#n++;
    const choose = this.world.choose;
    const ids = choose('ids', 'own', 'own', 'own', 'same');
    return {
      n,
      weight: choose(`weight ${n}`, 1, 1, 2, 3, 5, 0),
      key: choose(`key ${n}`, ['a', 'b'][n % 2]!, 'a', 'a', 'b', 'c'),
      lane: choose(`lane ${n}`, n % 3 === 2 ? 'urgent' : 'later', 'urgent', 'later'),
      id: ids === 'own' ? `i${n}` : 'same',
      poison: choose(`poison ${n}`, false, false, false, false, true),
    };
  }
}

/** A stream of items through an operator, with a consumer. */
export class Pipe implements Actor {
  readonly timers: Timers;
  readonly story: Story;
  readonly sent: Item[] = [];
  readonly sentAt = new Map<Item, number>();
  readonly acts: Partial<Record<Act, () => void>>;
  life: Life = 'open';
  /** Whether the source has ended, and how. */
  source: 'open' | 'completed' | 'errored' = 'open';
  readonly #input = new Subject<Item>();
  readonly index: number;
  /** How an item is handed over, and the end of them. */
  put: (item: Item) => void = (item) => {
    this.push(item);
  };
  putEnd: (error: SourceError | undefined) => void = (error) => {
    this.close(error);
  };
  sourceError: SourceError | undefined;
  /** How it errored. */
  failure: unknown;
  /** What more there is to do at the end, and to look at. */
  onEnd: () => void = () => undefined;
  onFinish: () => void = () => undefined;
  onCheck: () => void = () => undefined;
  onRest: () => void = () => undefined;
  /** Calls that never end by themselves. */
  calls: Calls | undefined;
  /** Whether every signal has aborted when `unsubscribe` returns. */
  abortsAtOnce = false;
  /** Set while the operator is being subscribed to. */
  starting = true;
  /** What came out, in order. */
  readonly out: unknown[] = [];
  readonly #leave = new Subject<void>();
  #subscription: Subscription | undefined;

  constructor(
    readonly world: World,
    readonly name: string,
    readonly supply: Supply,
  ) {
    this.index = world.actors.length;
    world.actors.push(this);
    this.timers = new Timers(world.clock);
    this.story = new Story(world, name);
    const act =
      (what: () => void): (() => void) =>
      () => {
        if (this.life === 'open') what();
      };
    this.acts = {
      send: act(() => {
        this.send();
      }),
      leave: act(() => {
        this.leave();
      }),
      complete: act(() => {
        this.complete();
      }),
      fail: act(() => {
        if (this.source !== 'open') return;
        this.source = 'errored';
        this.sourceError = new SourceError();
        this.putEnd(this.sourceError);
      }),
    };
  }

  readonly onEvent = (event: FlowEvent): void => {
    this.story.told(event);
    this.world.at(`event:${event.type}`, this.index);
  };

  /** A callback of the operator's options, which is a place as well. */
  readonly callback =
    <A extends unknown[], V>(place: string, answer: (...given: A) => V): ((...given: A) => V) =>
    (...given) => {
      this.world.at(place, this.index);
      return answer(...given);
    };

  send(): void {
    if (this.source !== 'open' || this.life !== 'open') return;
    const item = this.supply.next();
    if (this.world.log) this.world.say(`send ${valueOf(item)} ${item.poison ? 'poison' : ''}`);
    this.put(item);
  }

  /** An item is about to be handed over. */
  accept(item: Item): void {
    this.sent.push(item);
    this.sentAt.set(item, this.world.clock.passed);
  }

  push(item: Item): void {
    this.accept(item);
    this.#input.next(item);
  }

  close(error: SourceError | undefined): void {
    if (error === undefined) this.#input.complete();
    else this.#input.error(error);
  }

  complete(): void {
    if (this.source !== 'open') return;
    this.source = 'completed';
    this.putEnd(undefined);
  }

  leave(): void {
    if (this.life !== 'open') return;
    this.life = 'left';
    if (!this.#subscription) {
      this.#leave.next();
      return;
    }
    try {
      this.#subscription.unsubscribe();
    } finally {
      if (this.abortsAtOnce && this.open > 0)
        this.world.problem(`${this.name}: ${this.open} call(s) go on when \`unsubscribe\` has returned`);
    }
  }

  /** Begins: `first` so many items come while the source is being subscribed to. */
  start(build: (source: Observable<Item>) => Observable<unknown>, read: (value: unknown) => void, first = 0): void {
    const items: Item[] = [];
    for (let i = 0; i < first; i++) items.push(this.supply.next());
    const noted = function* (this: Pipe): Generator<Item> {
      for (const item of items) {
        this.accept(item);
        yield item;
      }
    };
    // Listens to the subject first: it may be sent to meanwhile.
    const input = first === 0 ? this.#input : merge(this.#input, from({ [Symbol.iterator]: noted.bind(this) }));
    const subscription = build(input)
      .pipe(takeUntil(this.#leave))
      .subscribe({
        next: (value) => {
          if (this.life !== 'open') this.world.problem(`${this.name}: a value after it was ${this.life}`);
          this.out.push(value);
          this.calls?.delivered(value);
          read(value);
          this.world.at('next', this.index);
        },
        error: (error: unknown) => {
          if (this.life !== 'open') this.world.problem(`${this.name}: an error after it was ${this.life}`);
          this.life = 'errored';
          this.failure = error;
          if (this.world.log) this.world.say(`${this.name} errors: ${String(error)}`);
          if (!(error instanceof SourceError) && !isNamed(error) && !(error instanceof WorkError))
            this.world.problem(`${this.name} errors with ${String(error)}`);
          this.world.at('error', this.index);
        },
        complete: () => {
          if (this.life === 'left') return;
          if (this.life !== 'open') this.world.problem(`${this.name}: a completion after it was ${this.life}`);
          this.life = 'completed';
          this.world.at('complete', this.index);
        },
      });
    this.#subscription = subscription;
    this.starting = false;
    if (this.life === 'left') subscription.unsubscribe();
  }

  /** Why no call may be made any more. */
  over(): string | undefined {
    return this.life === 'open' ? undefined : `${this.name} was ${this.life}`;
  }

  check(): void {
    this.onCheck();
  }

  rest(): void {
    this.onRest();
    if (this.life === 'open' || this.starting) return;
    if (this.timers.live > 0) this.world.problem(`${this.name} leaves ${this.timers.live} timer(s) when it is ${this.life}`);
    if (this.#input.observed) this.world.problem(`${this.name} keeps its source when it is ${this.life}`);
    if (this.open > 0) this.world.problem(`${this.name} leaves ${this.open} call(s) when it is ${this.life}`);
  }

  get open(): number {
    return this.calls?.open ?? 0;
  }

  end(): void {
    if (this.life === 'open') this.complete();
    this.onEnd();
  }

  giveUp(isStuck: boolean): void {
    if (this.life !== 'open') return;
    if (isStuck) this.world.problem(`${this.name} never ends`);
    this.world.try(() => {
      this.leave();
    });
  }

  finish(): void {
    this.rest();
    this.story.finish();
    this.onFinish();
  }
}

/** How a source of the test's fails. */
export class SourceError extends Error {
  override readonly name = 'SourceError';
}

/** Looks at settled results: each item once, with its own input and its own value, in the order that was promised. */
export class Results {
  readonly settled = new Set<number>();
  /** Whether results are in the order in which items were sent, not only in that of their indexes. */
  ordersSent = false;
  readonly #indexes = new Set<number>();
  readonly #lastOf = new Map<string, number>();
  #last = -1;

  constructor(
    readonly pipe: Pipe,
    readonly order: 'completion' | 'input' | 'perKey',
    readonly checkReason: (item: Item, reason: unknown) => void,
    readonly deadlineMs = Infinity,
  ) {}

  readonly read = (value: unknown): void => {
    const { world, name } = this.pipe;
    const settled = value as SettledLike;
    const item = settled.input as Item | undefined;
    if (item === undefined || !this.pipe.sent.includes(item)) {
      world.problem(`${name}: a result of something that was not sent`);
      return;
    }
    if (this.settled.has(item.n)) world.problem(`${name}: an item settles twice`);
    this.settled.add(item.n);
    if (this.#indexes.has(settled.index)) world.problem(`${name}: two results with one index`);
    this.#indexes.add(settled.index);
    if (world.log) world.say(`settled ${valueOf(item)} ${settled.status} ${settled.status === 'rejected' ? String(settled.reason) : ''}`);
    if (settled.status === 'rejected') this.checkReason(item, settled.reason);
    else if (settled.value !== undefined && settled.value !== valueOf(item)) world.problem(`${name}: an item gets the result of another`);
    // One that is refused because its `key` threw goes out at once.
    const isRefused = (settled.reason as { code?: unknown } | undefined)?.code === 'FLOW_CALLBACK';
    if (!isRefused) this.#checkOrder(item, settled.index);
    const { clock } = world;
    const sentAt = this.pipe.sentAt.get(item) ?? 0;
    if (this.order === 'completion' && !clock.hasLeapt && clock.passed - sentAt > this.deadlineMs + this.pipe.timers.behind())
      world.problem(`${name}: a result after the deadline`);
  };

  #checkOrder(item: Item, index: number): void {
    const { world, name, sent } = this.pipe;
    // Whatever callbacks send comes behind the item they were asked about.
    if (this.ordersSent) index = sent.findIndex(({ n }) => n === item.n);
    const before = this.order === 'input' ? this.#last : this.order === 'perKey' ? (this.#lastOf.get(item.key) ?? -1) : -1;
    if (index < before) world.problem(`${name}: results out of order`);
    this.#last = index;
    this.#lastOf.set(item.key, index);
  }

  finish(): void {
    const { pipe } = this;
    if (pipe.life !== 'completed') return;
    const lost = pipe.sent.filter(({ n }) => !this.settled.has(n));
    if (lost.length > 0) pipe.world.problem(`${pipe.name}: ${lost.length} item(s) never settle`);
  }
}
