import * as make from '../../operators/index.js';
import { Timers } from './clock.js';
import type { Supply } from './pipe.js';
import { type Item, isNamed, valueOf } from './work.js';
import type { Act, Actor, World } from './world.js';

interface Offer {
  readonly item: Item;
  state: 'waiting' | 'in' | 'taken' | 'refused';
  leave: () => void;
}

/** An intake between producers who wait and consumers who take their time. */
export class IntakeActor implements Actor {
  readonly name = 'createIntake';
  readonly timers: Timers;
  readonly acts: Partial<Record<Act, () => void>>;
  readonly index: number;
  readonly #intake: ReturnType<typeof make.createIntake<Item>>;
  readonly #offers: Offer[] = [];
  readonly #shared = new AbortController();
  readonly #maxQueued: number;
  #reader: AsyncIterator<Item> | undefined;
  /** What was inside at a `close` is given up. */
  #wasClosed = false;
  #drains = 0;
  #drained = 0;
  #told = 0;

  constructor(
    readonly world: World,
    readonly supply: Supply,
  ) {
    const { choose } = world;
    this.index = world.actors.length;
    world.actors.push(this);
    this.timers = new Timers(world.clock);
    this.#maxQueued = choose('maxQueued', 2, 1, 3, 16);
    this.#intake = make.createIntake<Item>({
      scheduler: this.timers,
      maxQueued: this.#maxQueued,
      onEvent: ({ type }) => {
        if (type === 'drained' && ++this.#told > 1) world.problem('`drained` is told twice');
        world.at(`event:${type}`, this.index);
      },
      ...(choose('lanes', false, true) && {
        queue: make.lanes(
          ['urgent', 'later'].map((name) => ({ name, maxQueued: choose(`${name} waiting`, 100, 1, 2) })),
          {
            by: (item: Item) => {
              world.at('lane', this.index);
              return item.lane;
            },
            ...(choose('sharing', false, true) && {
              key: (item: Item) => {
                world.at('lane.key', this.index);
                return item.key;
              },
            }),
          },
        ),
      }),
    });
    this.acts = {
      send: () => {
        this.#offer();
      },
      leave: () => {
        const reader = this.#reader;
        this.#reader = undefined;
        void reader?.return?.();
      },
      limits: () => {
        this.#read();
      },
      abort: () => {
        this.#shared.abort();
      },
      drain: () => {
        this.#drain();
      },
      close: () => {
        this.#wasClosed = true;
        this.#intake.close();
      },
    };
    this.#intake.ready$.subscribe({
      next: () => {
        world.at('ready', this.index);
      },
    });
  }

  #drain(): void {
    this.#drains++;
    void this.#intake.drain().then(() => {
      this.#drained++;
      this.world.at('drained', this.index);
    });
  }

  #offer(): void {
    const { world } = this;
    const item = this.supply.next();
    const way = world.choose<'offer' | 'tryOffer'>(`way ${item.n}`, 'offer', 'offer', 'tryOffer');
    const offer: Offer = { item, state: 'waiting', leave: () => undefined };
    this.#offers.push(offer);
    const settle = (state: 'in' | 'refused'): void => {
      if (offer.state === 'taken' && state === 'in') return;
      if (offer.state !== 'waiting') world.problem('an offer is answered twice');
      offer.state = state;
    };
    world.say(`${way} ${valueOf(item)}`);
    if (way === 'tryOffer') {
      settle(this.#intake.tryOffer(item) ? 'in' : 'refused');
      return;
    }
    const signalled = world.choose(`signal ${item.n}`, false, true);
    this.#intake.offer(item, signalled ? { signal: this.#shared.signal } : {}).then(
      (isIn) => {
        settle(isIn ? 'in' : 'refused');
        world.at('settled', this.index);
      },
      (error: unknown) => {
        if (!isNamed(error)) world.problem(`an offer fails with ${String(error)}`);
        settle('refused');
        world.at('settled', this.index);
      },
    );
  }

  /** Takes one item, and the next after a while. */
  #read(): void {
    const { world } = this;
    this.#reader ??= this.#intake[Symbol.asyncIterator]();
    const reader = this.#reader;
    void reader.next().then(({ done, value }) => {
      if (done === true) return;
      this.#taken(value);
      world.at('next', this.index);
    });
  }

  #taken(item: Item): void {
    const offer = this.#offers.find((other) => other.item === item);
    if (offer === undefined || offer.state === 'taken' || offer.state === 'refused') {
      this.world.problem(`createIntake hands out an item that was ${offer === undefined ? 'not offered' : offer.state}`);
      return;
    }
    offer.state = 'taken';
  }

  check(): void {
    const { queued, waiting } = this.#intake.snapshot();
    if (Math.min(queued, waiting) < 0) this.world.problem('the intake counts below zero');
    if (queued > this.#maxQueued) this.world.problem(`${queued} inside, where ${this.#maxQueued} may be`);
  }

  readonly open = 0;

  rest(): void {
    return;
  }

  end(): void {
    this.#drain();
    for (let i = 0; i <= this.#offers.length; i++) this.#read();
  }

  giveUp(): void {
    if (this.#drained < this.#drains) this.world.problem('drain of the intake never resolves');
  }

  finish(): void {
    const { queued, waiting } = this.#intake.snapshot();
    if (queued + waiting !== 0) this.world.problem(`the intake counts ${queued} inside and ${waiting} waiting at the end`);
    for (const { item, state } of this.#offers) if (state === 'waiting') this.world.problem(`offer of ${valueOf(item)} is never answered`);
    const left = this.#offers.filter(({ state }) => state === 'in').length;
    if (left > 0 && !this.#wasClosed) this.world.problem(`${left} item(s) are lost inside`);
    if (this.timers.live > 0) this.world.problem(`the intake leaves ${this.timers.live} timer(s)`);
    if (this.#told !== 1) this.world.problem(`\`drained\` of the intake is told ${this.#told} times`);
  }
}
