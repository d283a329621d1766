/**
 * What each workload costs as minimal code: no options, no cancelling, no errors that say what
 * went wrong. The other implementations are measured against these.
 */

/** First in, first out, in a ring that doubles. */
class Fifo<T> {
  length = 0;
  #slots: (T | undefined)[] = new Array<T | undefined>(16);
  #mask = 15;
  #head = 0;

  push(item: T): void {
    if (this.length > this.#mask) this.#double();
    this.#slots[(this.#head + this.length) & this.#mask] = item;
    this.length++;
  }

  /** Only when there is one. */
  shift(): T {
    const head = this.#head;
    const item = this.#slots[head] as T;
    this.#slots[head] = undefined;
    this.#head = (head + 1) & this.#mask;
    this.length--;
    return item;
  }

  #double(): void {
    const slots = new Array<T | undefined>(2 * this.#slots.length);
    for (let i = 0; i < this.length; i++) slots[i] = this.#slots[(this.#head + i) & this.#mask];
    this.#slots = slots;
    this.#mask = slots.length - 1;
    this.#head = 0;
  }
}

/** Up to 32 levels, the lowest number first: a ring for each, and one word that says which have something. */
class Levels<T> {
  length = 0;
  #filled = 0;
  readonly #levels: readonly Fifo<T>[];

  constructor(levels: number) {
    this.#levels = Array.from({ length: levels }, () => new Fifo<T>());
  }

  push(item: T, level: number): void {
    this.#levels[level]!.push(item);
    this.#filled |= 1 << level;
    this.length++;
  }

  /** Only when there is one. */
  shift(): T {
    const level = 31 - Math.clz32(this.#filled & -this.#filled);
    const items = this.#levels[level]!;
    const item = items.shift();
    if (items.length === 0) this.#filled &= ~(1 << level);
    this.length--;
    return item;
  }
}

export function batchBySize<T>(items: readonly T[], size: number, emit: (batch: T[]) => void): void {
  let open: T[] = [];
  for (let i = 0; i < items.length; i++) {
    open.push(items[i] as T);
    if (open.length === size) {
      emit(open);
      open = [];
    }
  }
  if (open.length > 0) emit(open);
}

export function batchByWeight<T>(
  items: readonly T[],
  budget: number,
  size: number,
  weigh: (item: T) => number,
  emit: (batch: T[]) => void,
): void {
  let open: T[] = [];
  let weight = 0;
  for (let i = 0; i < items.length; i++) {
    const item = items[i] as T;
    const own = weigh(item);
    if (open.length > 0 && (weight + own > budget || open.length === size)) {
      emit(open);
      open = [];
      weight = 0;
    }
    open.push(item);
    weight += own;
  }
  if (open.length > 0) emit(open);
}

/** One timer, left alone when a batch closes by size: when it fires it looks how old the open batch is. */
export class SizeOrTime<T> {
  #open: T[] = [];
  #dueAtMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly size: number,
    private readonly waitMs: number,
    private readonly emit: (batch: T[]) => void,
  ) {}

  push(item: T): void {
    if (this.#open.length === 0) {
      this.#dueAtMs = performance.now() + this.waitMs;
      this.#timer ??= setTimeout(this.#fire, this.waitMs);
    }
    if (this.#open.push(item) === this.size) this.#close();
  }

  end(): void {
    clearTimeout(this.#timer);
    if (this.#open.length > 0) this.#close();
  }

  #close(): void {
    const batch = this.#open;
    this.#open = [];
    this.emit(batch);
  }

  readonly #fire = (): void => {
    this.#timer = undefined;
    if (this.#open.length === 0) return;
    const leftMs = this.#dueAtMs - performance.now();
    if (leftMs > 0) this.#timer = setTimeout(this.#fire, leftMs);
    else this.#close();
  };
}

/** So many workers that take the next from one list. */
export async function mapList<T, R>(
  items: readonly T[],
  concurrency: number,
  work: (item: T) => Promise<R>,
  emit: (result: R) => void,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) emit(await work(items[next++] as T));
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

/** A list in keyed lanes, each with its own number of slots. */
export function mapInLanes<T, R>(
  items: readonly T[],
  keyOf: (item: T) => unknown,
  perKey: number,
  work: (item: T) => Promise<R>,
  emit: (result: R) => void,
): Promise<void> {
  interface Lane {
    free: number;
    readonly waiting: Fifo<T>;
    readonly next: (result: R) => void;
  }
  return new Promise((resolve, reject) => {
    const lanes = new Map<unknown, Lane>();
    let left = items.length;
    const open = (): Lane => {
      const lane: Lane = {
        free: perKey,
        waiting: new Fifo<T>(),
        next: (result) => {
          emit(result);
          if (--left === 0) resolve();
          if (lane.waiting.length > 0) work(lane.waiting.shift()).then(lane.next, reject);
          else lane.free++;
        },
      };
      return lane;
    };
    for (const item of items) {
      const key = keyOf(item);
      let lane = lanes.get(key);
      if (lane === undefined) lanes.set(key, (lane = open()));
      if (lane.free === 0) lane.waiting.push(item);
      else {
        lane.free--;
        work(item).then(lane.next, reject);
      }
    }
  });
}

interface Task<T, R> {
  readonly input: T;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

interface Waiting<T> {
  readonly length: number;
  push(item: T, level: number): void;
  shift(): T;
}

/** A promise for each task; a slot has its two handlers made once. */
class Pool<T, R> {
  readonly #free: ((task: Task<T, R>) => void)[] = [];

  constructor(
    concurrency: number,
    private readonly work: (input: T) => Promise<R>,
    private readonly waiting: Waiting<Task<T, R>>,
  ) {
    for (let i = 0; i < concurrency; i++) this.#free.push(this.#slot());
  }

  run(input: T, level = 0): Promise<R> {
    return new Promise((resolve, reject) => {
      const task = { input, resolve, reject };
      const slot = this.#free.pop();
      if (slot) slot(task);
      else this.waiting.push(task, level);
    });
  }

  #slot(): (task: Task<T, R>) => void {
    let task: Task<T, R>;
    const start = (next: Task<T, R>): void => {
      task = next;
      this.work(task.input).then(done, failed);
    };
    const goOn = (): void => {
      if (this.waiting.length > 0) start(this.waiting.shift());
      else this.#free.push(start);
    };
    const done = (result: R): void => {
      task.resolve(result);
      goOn();
    };
    const failed = (error: unknown): void => {
      task.reject(error);
      goOn();
    };
    return start;
  }
}

export function pool<T, R>(concurrency: number, work: (input: T) => Promise<R>): (input: T) => Promise<R> {
  const tasks = new Pool(concurrency, work, new Fifo<Task<T, R>>());
  return (input) => tasks.run(input);
}

/** Up to 32 levels, 0 first. */
export function priorityPool<T, R>(
  concurrency: number,
  levels: number,
  work: (input: T) => Promise<R>,
): (input: T, level: number) => Promise<R> {
  const tasks = new Pool(concurrency, work, new Levels<Task<T, R>>(levels));
  return (input, level) => tasks.run(input, level);
}

/** A pool for each key. */
export function keyedPools<T, R>(concurrency: number, work: (input: T) => Promise<R>): (key: unknown, input: T) => Promise<R> {
  const pools = new Map<unknown, (input: T) => Promise<R>>();
  return (key, input) => {
    let run = pools.get(key);
    if (run === undefined) pools.set(key, (run = pool(concurrency, work)));
    return run(input);
  };
}

/** Calls made in one turn of the microtask queue share a batch. */
export function loader<K, V>(maxSize: number, work: (keys: readonly K[]) => Promise<readonly V[]>): (key: K) => Promise<V> {
  let keys: K[] = [];
  let resolves: ((value: V) => void)[] = [];
  let rejects: ((error: unknown) => void)[] = [];
  let armed = false;
  const send = (): void => {
    const [done, failed] = [resolves, rejects];
    work(keys).then(
      (values) => {
        for (let i = 0; i < done.length; i++) done[i]!(values[i] as V);
      },
      (error: unknown) => {
        for (const reject of failed) reject(error);
      },
    );
    [keys, resolves, rejects] = [[], [], []];
  };
  const tick = (): void => {
    armed = false;
    if (keys.length > 0) send();
  };
  return (key) =>
    new Promise((resolve, reject) => {
      keys.push(key);
      resolves.push(resolve);
      rejects.push(reject);
      if (keys.length === maxSize) send();
      else if (!armed) {
        armed = true;
        queueMicrotask(tick);
      }
    });
}

/** The newest wins: what runs is cancelled before the next is started. `start` answers how to cancel. */
export function switcher<T, R>(start: (item: T, done: (result: R) => void) => () => void, emit: (result: R) => void): (item: T) => void {
  let cancel: (() => void) | undefined;
  const done = (result: R): void => {
    cancel = undefined;
    emit(result);
  };
  return (item) => {
    cancel?.();
    cancel = start(item, done);
  };
}

const GRANTED = Promise.resolve();

/** Slots counted down and up. Answers how to wait for one and how to give it back. */
export function slots(concurrency: number): { readonly acquire: () => Promise<void>; readonly release: () => void } {
  const waiting = new Fifo<() => void>();
  let free = concurrency;
  return {
    acquire: () => {
      if (free === 0) {
        return new Promise((resolve) => {
          waiting.push(resolve);
        });
      }
      free--;
      return GRANTED;
    },
    release: () => {
      if (waiting.length > 0) waiting.shift()();
      else free++;
    },
  };
}

/** A bucket that holds a second's worth of permits. */
export function rate(perSecond: number): () => Promise<void> {
  const waiting = new Fifo<() => void>();
  let level = perSecond;
  let readAtMs = performance.now();
  const refill = (): void => {
    const nowMs = performance.now();
    level = Math.min(perSecond, level + ((nowMs - readAtMs) * perSecond) / 1000);
    readAtMs = nowMs;
  };
  const arm = (): void => {
    setTimeout(pay, Math.ceil(((1 - level) * 1000) / perSecond));
  };
  const pay = (): void => {
    refill();
    for (; level >= 1 && waiting.length > 0; level--) waiting.shift()();
    if (waiting.length > 0) arm();
  };
  return () => {
    if (level < 1) refill();
    if (level >= 1 && waiting.length === 0) {
      level--;
      return GRANTED;
    }
    return new Promise((resolve) => {
      waiting.push(resolve);
      if (waiting.length === 1) arm();
    });
  };
}

/** Grants a slot, a request and tokens together, or none of them. Each permit returns its slot once. */
export class Permits {
  #free: number;
  #requests: number;
  #tokens: number;
  #readAtMs = performance.now();

  constructor(
    slots: number,
    private readonly requestsPerSecond: number,
    private readonly tokensPerSecond: number,
  ) {
    this.#free = slots;
    this.#requests = requestsPerSecond;
    this.#tokens = tokensPerSecond;
  }

  take(tokens: number): Permit | undefined {
    const nowMs = performance.now();
    const spanSeconds = (nowMs - this.#readAtMs) / 1000;
    this.#readAtMs = nowMs;
    this.#requests = Math.min(this.requestsPerSecond, this.#requests + spanSeconds * this.requestsPerSecond);
    this.#tokens = Math.min(this.tokensPerSecond, this.#tokens + spanSeconds * this.tokensPerSecond);
    if (this.#free === 0 || this.#requests < 1 || this.#tokens < tokens) return undefined;
    this.#free--;
    this.#requests--;
    this.#tokens -= tokens;
    return new Permit(this);
  }

  /** By the permit. */
  back(): void {
    this.#free++;
  }
}

export class Permit {
  #released = false;

  constructor(private readonly owner: Permits) {}

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.owner.back();
  }
}
