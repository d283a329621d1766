import { type Observable, Subject, takeUntil } from 'rxjs';
import type { FlowEvent } from '../../operators/index.js';
import { Timers } from './clock.js';
import { Story } from './story.js';
import { type Behaviour, Calls, type Item, isNamed, type Rules } from './work.js';
import type { Act, Actor, World } from './world.js';

/** One subscription, or one call of a handle: it ends exactly once, or is left. */
export interface Shot {
  readonly n: number;
  state: 'waiting' | 'ended' | 'failed' | 'left';
  readonly calls: Calls;
  readonly out: unknown[];
  leave: () => void;
}

export interface Begun {
  /** What is subscribed to, or the promise. */
  readonly answer: Observable<unknown> | Promise<unknown>;
  /** Leaves by a signal, where there is one. */
  readonly abort?: () => void;
  /** Looks at what it said when it has ended. */
  readonly ended?: () => void;
}

export type ShotRules = Omit<Rules, 'actor' | 'over'>;

/** Operators that make one call for every subscriber: each `send` is one more of them. */
export class Shots implements Actor {
  readonly timers: Timers;
  readonly story: Story;
  readonly acts: Partial<Record<Act, () => void>>;
  readonly index: number;
  readonly shots: Shot[] = [];
  begin: (shot: Shot) => Begun = () => {
    throw new Error('nothing begins');
  };
  onCheck: () => void = () => undefined;
  onFinish: () => void = () => undefined;
  onEnd: () => void = () => undefined;
  rules: ShotRules = { limit: () => Infinity };
  #calls = 0;

  constructor(
    readonly world: World,
    readonly name: string,
    readonly script: (no: number) => Behaviour,
  ) {
    this.index = world.actors.length;
    world.actors.push(this);
    this.timers = new Timers(world.clock);
    this.story = new Story(world, name);
    this.acts = {
      send: () => {
        this.send();
      },
      leave: () => {
        this.shots.findLast(({ state }) => state === 'waiting')?.leave();
      },
    };
  }

  readonly onEvent = (event: FlowEvent): void => {
    this.story.told(event);
    this.world.at(`event:${event.type}`, this.index);
  };

  readonly callback =
    <A extends unknown[], V>(place: string, answer: (...given: A) => V): ((...given: A) => V) =>
    (...given) => {
      this.world.at(place, this.index);
      return answer(...given);
    };

  send(): void {
    const { world } = this;
    const n = this.shots.length;
    const shot: Shot = {
      n,
      state: 'waiting',
      out: [],
      leave: () => undefined,
      calls: new Calls(
        world,
        {
          ...this.rules,
          actor: this.index,
          over: () => (shot.state === 'waiting' ? undefined : `its consumer has ${shot.state}`),
        },
        () => this.script(this.#calls++),
      ),
    };
    this.shots.push(shot);
    world.say(`${this.name} ${n}`);
    const { answer, abort, ended } = this.begin(shot);
    const leave = new Subject<void>();
    shot.leave = () => {
      if (shot.state !== 'waiting') return;
      if (abort) {
        abort();
        return;
      }
      shot.state = 'left';
      leave.next();
    };
    const over = (state: 'ended' | 'failed', error?: unknown): void => {
      if (shot.state !== 'waiting') world.problem(`${this.name}: a call ends that has ${shot.state}`);
      shot.state = state;
      if (world.log) world.say(`${this.name} ${n} has ${state} ${state === 'failed' ? String(error) : ''}`);
      if (state === 'ended') ended?.();
      else if (!isNamed(error)) world.problem(`${this.name} fails with ${String(error)}`);
      world.at(state === 'ended' ? 'complete' : 'error', this.index);
    };
    const next = (value: unknown): void => {
      if (shot.state !== 'waiting') world.problem(`${this.name}: a value of a call that has ${shot.state}`);
      shot.out.push(value);
      shot.calls.delivered(value);
      world.at('next', this.index);
    };
    const failed = (error: unknown): void => {
      over('failed', error);
    };
    if ('subscribe' in answer) {
      answer.pipe(takeUntil(leave)).subscribe({
        next,
        error: failed,
        complete: () => {
          if (shot.state !== 'left') over('ended');
        },
      });
    } else
      answer.then((value) => {
        shot.out.push(value);
        over('ended');
      }, failed);
  }

  get open(): number {
    return this.shots.reduce((open, { calls }) => open + calls.open, 0);
  }

  check(): void {
    this.onCheck();
  }

  rest(): void {
    for (const { state, calls } of this.shots)
      if (state !== 'waiting' && calls.open > 0) this.world.problem(`${this.name} leaves a call open that has ${state}`);
  }

  end(): void {
    this.onEnd();
  }

  giveUp(isStuck: boolean): void {
    for (const shot of this.shots) {
      if (shot.state !== 'waiting') continue;
      if (isStuck) this.world.problem(`a call of ${this.name} never ends`);
      this.world.try(shot.leave);
    }
  }

  finish(): void {
    this.story.finish();
    this.rest();
    if (this.shots.some(({ state }) => state === 'waiting'))
      this.world.problem(`a call of ${this.name} never ends, not even when it is left`);
    if (this.timers.live > 0) this.world.problem(`${this.name} leaves ${this.timers.live} timer(s)`);
    if (this.open > 0) this.world.problem(`${this.name} leaves ${this.open} call(s)`);
    this.onFinish();
  }
}

/** The items of a call that takes a list, numbered through all of an actor's. */
export function listOf(supply: { next(): Item }, size: number): Item[] {
  return Array.from({ length: size }, () => supply.next());
}
