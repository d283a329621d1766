import { Observable } from 'rxjs';
import { isPlanned, Planned, type World } from './world.js';

export interface Item {
  readonly n: number;
  readonly weight: number;
  readonly key: string;
  readonly lane: string;
  readonly id: string;
  /** A call that has it fails, and so does any part of it that has. */
  readonly poison: boolean;
  /** Of an item that was cut up, which part of how many. */
  readonly part?: string;
}

/** What a call does. */
export interface Behaviour {
  readonly form: 'observable' | 'promise' | 'thenable' | 'iterable' | 'value';
  /** ms until then; 0 is at once, inside the call. */
  readonly ms: number;
  readonly does:
    | 'ok'
    | 'fail'
    | 'never'
    | 'throw'
    | 'shape'
    | 'partial'
    | 'partialById'
    | 'map'
    | 'settled'
    | 'thenThrows'
    | 'nothing'
    | 'more';
  /** Status of the error. */
  readonly status?: number;
  /** Names the second item. */
  readonly blames?: boolean;
  /** Whether leaving it throws. */
  readonly badTeardown?: boolean;
}

/** How a call of the test's fails. */
export class WorkError extends Error {
  override readonly name = 'WorkError';
  constructor(
    readonly status: number | undefined,
    readonly call: Call,
    message = 'the work fails',
  ) {
    super(message);
  }
}

export interface Call {
  readonly no: number;
  readonly items: readonly Item[];
  readonly does: Behaviour;
  outcome: 'running' | 'ok' | 'failed' | 'left';
  /** Its signal has fired. */
  aborted: boolean;
  /** It has ended by itself, and its teardown has run. */
  isOver: boolean;
  /** A callback did something while the call was made: the call may be over before its start is reported. */
  isDisturbed: boolean;
  /** Its Observable has been subscribed to, and has not ended. */
  isSubscribed: boolean;
}

/** What an operator with work promises of its calls. */
export interface Rules {
  readonly actor: number;
  /** Whether no call may be made any more, and why. */
  over(): string | undefined;
  /** Most calls at a time. */
  limit(): number;
  /** The same for a key. */
  keyLimit?(key: string): number;
  /** Items may be called again after they have settled, or beside themselves: hedges, other subscribers. */
  readonly repeats?: boolean;
  settled?(item: Item): boolean;
  /** Nothing is tried again after a status of 401. */
  readonly isFinal?: boolean;
  /** Of a batch that failed because of one that is named, only that one is told of it. */
  readonly divides?: boolean;
  /** What failed for a reason that may pass is sent again as it was. */
  readonly keepsWhole?: boolean;
  /** An item above it travels alone. */
  readonly maxWeight?: number;
  /** True when the caller of the item has left. */
  left?(item: Item): boolean;
  /** The limiter that every call has a permit of. */
  readonly limiter?: { granted(): void };
}

export const valueOf = (item: Item): string => `v${item.n}${item.part ?? ''}`;

/** The calls of one actor. */
export class Calls {
  readonly all: Call[] = [];
  readonly #world: World;
  readonly rules: Rules;
  readonly #behave: (no: number) => Behaviour;

  constructor(world: World, rules: Rules, behave: (no: number) => Behaviour) {
    this.#world = world;
    this.rules = rules;
    this.#behave = behave;
    world.atEnd.push(() => {
      const kept = this.all.filter(({ isSubscribed, outcome }) => isSubscribed && outcome === 'running').length;
      if (kept > 0) world.problem(`${kept} stream(s) are still listened to`);
    });
  }

  /** Calls that take up a place now. */
  get running(): number {
    let running = 0;
    for (const call of this.all) if (this.#isRunning(call)) running++;
    return running;
  }

  #isRunning(call: Call): boolean {
    return call.outcome === 'running' && !call.aborted;
  }

  /** Calls that have not ended, and were neither left nor aborted. */
  get open(): number {
    let open = 0;
    for (const call of this.all) if (call.outcome === 'running' && !call.aborted) open++;
    return open;
  }

  /** Makes a call: the work of a batch, or of one item. */
  make(items: readonly Item[], signal: AbortSignal, shape: (call: Call) => unknown): unknown {
    const world = this.#world;
    const rules = this.rules;
    const no = this.all.length;
    const over = rules.over();
    if (over !== undefined) world.problem(`a call is made after ${over}`);
    if (signal.aborted) world.problem('a call is made with a signal that has fired');
    if (this.running >= rules.limit()) world.problem(`a call is made beside ${this.running}, with a limit of ${rules.limit()}`);
    for (const item of items) this.#checkItem(item);
    if (items.length > 1 && items.some(({ weight }) => weight > (rules.maxWeight ?? Infinity)))
      world.problem('a call of an item above the weight of a call, and of others');
    if (rules.left && items.every((item) => rules.left?.(item))) world.problem('a call is made whose callers have all left');
    if (rules.keepsWhole) this.#checkWhole(items);
    rules.limiter?.granted();
    const does = this.#behave(no);
    const call: Call = { no, items, does, outcome: 'running', aborted: false, isOver: false, isDisturbed: false, isSubscribed: false };
    this.all.push(call);
    if (world.log) world.say(`call ${no} [${items.map(valueOf).join(' ')}] ${JSON.stringify(does)}`);
    signal.addEventListener('abort', () => {
      if (call.aborted) world.problem('a signal fires twice');
      if (call.isOver) world.problem('a signal fires after its call has ended');
      call.aborted = true;
      if (world.log) world.say(`call ${no} is aborted`);
      world.at('abort', rules.actor);
    });
    const { sprung } = world;
    try {
      world.at('work', rules.actor);
    } catch (error) {
      call.outcome = 'failed';
      call.isDisturbed = true;
      throw error;
    }
    call.isDisturbed = world.sprung !== sprung;
    return this.#answer(call, shape);
  }

  #checkWhole(items: readonly Item[]): void {
    for (const item of items) {
      const last = this.all.findLast((call) => call.items.includes(item));
      const mayPass = last?.does.does === 'fail' && (last.does.status === 429 || last.does.status === 503);
      if (!mayPass || last.outcome !== 'failed' || last.aborted || last.isDisturbed) continue;
      const missing = last.items.filter((other) => !items.includes(other) && this.rules.settled?.(other) !== true);
      if (missing.length > 0) this.#world.problem('what failed for a reason that may pass is sent again in parts');
    }
  }

  #checkItem(item: Item): void {
    const { rules } = this;
    if (rules.repeats !== true) {
      if (
        rules.isFinal &&
        this.all.some(
          (call) =>
            call.outcome === 'failed' && !call.aborted && !call.isDisturbed && call.does.status === 401 && call.items.includes(item),
        )
      )
        this.#world.problem('an item is called again after something final');
      if (rules.settled?.(item)) this.#world.problem('an item is called after it has settled');
      for (const call of this.all)
        if (call.outcome === 'running' && !call.aborted && call.items.some((other) => other.n === item.n && other.part === item.part))
          this.#world.problem('an item is in two calls at a time');
    }
    if (rules.keyLimit === undefined) return;
    const beside = this.all.filter((call) => this.#isRunning(call) && call.items.some(({ key }) => key === item.key)).length;
    if (beside >= rules.keyLimit(item.key)) this.#world.problem(`a call of a key is made beside ${beside} of it`);
  }

  #answer(call: Call, shape: (call: Call) => unknown): unknown {
    const { does } = call;
    const fails = (): WorkError => new WorkError(does.status, call, does.blames ? 'input[1] is invalid' : undefined);
    const poisoned = does.does === 'ok' && call.items.some(({ poison }) => poison);
    /** Calls back with how it ends; nothing when it never does. */
    const end = (ok: (value: unknown) => void, bad: (error: unknown) => void): void => {
      if (call.outcome !== 'running') return;
      if (poisoned || does.does === 'fail') {
        call.outcome = 'failed';
        bad(poisoned ? new WorkError(400, call) : fails());
      } else {
        // The value of an Observable is not its end.
        if (does.form !== 'observable') call.outcome = 'ok';
        ok(shape(call));
      }
    };
    const wait = (ok: (value: unknown) => void, bad: (error: unknown) => void): (() => void) => {
      if (does.does === 'never') return () => undefined;
      if (does.ms === 0) {
        end(ok, bad);
        return () => undefined;
      }
      return this.#world.clock.after(does.ms, () => {
        end(ok, bad);
      });
    };
    if (does.does === 'throw') {
      call.outcome = 'failed';
      throw fails();
    }
    switch (does.form) {
      case 'value': {
        let answer: unknown;
        end(
          (value) => {
            answer = value;
          },
          (error: unknown) => {
            throw error;
          },
        );
        return answer;
      }
      case 'promise':
        return new Promise((resolve, reject) => {
          wait(resolve, reject);
        });
      case 'thenable':
        return this.#thenable(call, wait);
      case 'iterable':
        return this.#iterable(call, wait);
      case 'observable':
        return this.#observable(call, wait);
    }
  }

  #observable(call: Call, wait: Wait): Observable<unknown> {
    return new Observable((subscriber) => {
      call.isSubscribed = true;
      subscriber.add(() => {
        if (call.outcome === 'running') call.outcome = 'left';
        const { sprung } = this.#world;
        this.#world.at('teardown', this.rules.actor);
        // A subscriber that leaves during the teardown may be in time or not.
        call.isOver = call.outcome !== 'left' && this.#world.sprung === sprung && !call.isDisturbed;
        if (call.does.badTeardown) throw new Planned('teardown');
      });
      // A call whose caller left while the work was called is subscribed to and unsubscribed at once.
      if (call.outcome !== 'running') return undefined;
      return wait(
        (value) => {
          if (call.does.does !== 'nothing') subscriber.next(value);
          if (call.does.does === 'more') subscriber.next(value);
          if (hasLeft(call)) return;
          call.outcome = 'ok';
          subscriber.complete();
        },
        (error: unknown) => {
          subscriber.error(error);
        },
      );
    });
  }

  /** Sends its request when it is asked, as the query of a database does. */
  #thenable(call: Call, wait: Wait): unknown {
    let asked = 0;
    return {
      // biome-ignore lint/suspicious/noThenProperty: that is the point
      then: (ok: (value: unknown) => void, bad: (error: unknown) => void): Promise<void> => {
        if (++asked > 1) this.#world.problem('a lazy thenable is asked twice');
        if (call.does.does === 'thenThrows') {
          call.outcome = 'failed';
          throw new WorkError(call.does.status, call);
        }
        wait(ok, bad);
        return new Promise(() => undefined);
      },
    };
  }

  async *#iterable(call: Call, wait: Wait): AsyncGenerator {
    try {
      yield await new Promise((resolve, reject) => {
        wait(resolve, reject);
      });
    } finally {
      if (call.outcome === 'running') call.outcome = 'left';
    }
  }

  /** A value has been handed on: a promise that made it is over, and what it brought may still be read under its signal. */
  delivered(value: unknown): void {
    for (const call of this.all)
      if (call.outcome === 'ok' && !isStream(call) && call.items.some((item) => valueOf(item) === value)) call.isOver = true;
  }

  /** The work of batches. */
  batches(): (items: readonly Item[], context: { readonly signal: AbortSignal }) => never {
    return (items, { signal }) => this.make(items, signal, batchAnswer) as never;
  }

  /** The work of single items. */
  singles(): (item: Item, context: { readonly signal: AbortSignal }) => never {
    return (item, { signal }) => this.make([item], signal, () => valueOf(item)) as never;
  }

  /** A failure that an item is told of has to be its own. */
  checkReason(item: Item, reason: unknown): void {
    if (reason instanceof WorkError) {
      const { does, items } = reason.call;
      if (this.rules.divides && does.blames && items.length > 1 && items[1]?.n !== item.n)
        this.#world.problem('an item is told of the failure that another was named for');
      if (!reason.call.items.some(({ n }) => n === item.n)) this.#world.problem("an item is told of another's failure");
    } else if (!isNamed(reason)) this.#world.problem(`an item is rejected with ${String(reason)}`);
  }
}

/** More may come after its first value. */
function isStream({ does }: Call): boolean {
  return does.form === 'observable' || does.form === 'iterable';
}

function hasLeft({ outcome }: Call): boolean {
  return outcome === 'left';
}

type Wait = (ok: (value: unknown) => void, bad: (error: unknown) => void) => () => void;

/** One of the library's own errors, the abort of a caller, or what a callback of the test's threw. */
export function isNamed(reason: unknown): boolean {
  if (isPlanned(reason)) return true;
  if (typeof reason !== 'object' || reason === null) return false;
  const { code, name } = reason as { code?: unknown; name?: unknown };
  return (
    (typeof code === 'string' && code.startsWith('FLOW_')) || name === 'AbortError' || name === 'EmptyError' || reason instanceof WorkError
  );
}

/** The results of a batch, in the form that the call's behaviour says. */
function batchAnswer(call: Call): unknown {
  const { items, does } = call;
  const values = items.map(valueOf);
  switch (does.does) {
    case 'shape':
      return [...values, 'one too many'];
    case 'map':
      return new Map(items.map((item) => [item.id, valueOf(item)]));
    case 'partial':
      return values.map((value, i) => (i === 0 ? new WorkError(400, call) : value));
    case 'partialById':
      return new Map(items.slice(0, -1).map(({ id }, i) => [id, values[i]!]));
    case 'settled':
      return items.map((item, i) =>
        i === 0 ? { status: 'rejected', reason: new WorkError(400, call) } : { status: 'fulfilled', value: valueOf(item) },
      );
    default:
      return values;
  }
}
