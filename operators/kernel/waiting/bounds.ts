/**
 * Which entries may wait, and which are evicted for a newcomer. Every queue with a bound asks here, and nothing else reads `maxQueued` and
 * `overflow`.
 *
 * 1. The checks of an operator make {@link Bounds} of its options, once.
 * 2. For a newcomer that has to wait, the queue asks {@link refusal} (and {@link overweight}, {@link tooManyKeys} where it has such bounds) with the
 *    numbers it keeps anyway. Undefined lets the newcomer in: that is all a queue with room pays. What can start at once, or may not wait at all, needs no
 *    room: its owner does not ask.
 * 3. On a {@link Refusal} the queue asks which entries go, by the form that it has: {@link evictable} for lanes (`Queue`, `GrantQueue`),
 *    {@link evictableKey} for the lines of keys, {@link pushEvicting} for one line. No entry means that the newcomer goes. The owner takes the entries out,
 *    lets the newcomer in, and only then calls listeners.
 * 4. Under the policy 'error' no entry goes, and the operator fails. The error names the `bound` and `limit` of the refusal, and its `policy`.
 *
 * Results that an order holds back count: the owner adds them to `queued`.
 */
import type { GrantQueue, LaneRule, Overflow, Waiter } from '../queues/queue.js';

/** Without a `maxQueued`, so many results wait for an earlier one at most: then nothing starts that would have to wait as well. */
export const MOST_HELD = 1000;

/** A value, or a function that is asked for it each time. It does not throw. */
export type Asked<V> = V | (() => V);

/** The value as it is now. */
export function now<V extends string | number>(value: Asked<V>): V {
  return typeof value === 'function' ? value() : value;
}

/**
 * What the options of an operator say about waiting, checked and with defaults. A `maxQueued` that is lowered evicts nothing: it counts for newcomers.
 */
export interface Bounds {
  readonly maxQueued: Asked<number>;
  readonly overflow: Asked<Overflow>;
  readonly maxWeight: number;
  readonly maxKeys: number;
  /** Where a lane has bounds of its own, it says so here. */
  readonly lanes: readonly LaneRule[];
  /** What errors call the bound on all entries together. */
  readonly bound: 'maxQueued' | 'maxWaiting';
}

/** Why a newcomer may not wait as things are. */
export interface Refusal {
  /** The option that set the bound, and its value. */
  readonly bound: 'maxQueued' | 'maxKeys' | 'maxWaiting' | 'maxWeight';
  readonly limit: number;
  readonly policy: Overflow;
  /** Whether its lane is full, so that entries of other lanes make no room. */
  readonly isLaneFull: boolean;
  /** How many entries have to go until it fits: more than 1 where some were let in above the bound. */
  readonly excess: number;
}

/** Bounds as options give them; what is left out is no bound. */
export function boundsOf(options: { readonly [K in keyof Bounds]?: Bounds[K] | undefined }): Bounds {
  const { maxQueued = Infinity, overflow = 'error', maxWeight = Infinity, maxKeys = Infinity, lanes = [], bound = 'maxQueued' } = options;
  return { maxQueued, overflow, maxWeight, maxKeys, lanes, bound };
}

// ---- whether a newcomer may wait ------------------------------------------------------------------------------------

/** Why one more may not wait where so many entries do, and so many of them in its lane; undefined when it may. */
export function refusal(bounds: Bounds, queued: number, lane = 0, inLane = queued): Refusal | undefined {
  const { lanes } = bounds;
  const maxQueued = now(bounds.maxQueued);
  const rule = lane < lanes.length ? lanes[lane] : undefined;
  const most = rule?.maxQueued ?? Infinity;
  if (queued < maxQueued && inLane < most) return undefined;
  const isLaneFull = inLane >= most;
  return {
    bound: isLaneFull ? 'maxQueued' : bounds.bound,
    limit: isLaneFull ? most : maxQueued,
    policy: rule?.overflow ?? now(bounds.overflow),
    isLaneFull,
    excess: 1 + Math.max(queued - maxQueued, inLane - most),
  };
}

/** Why no entry may wait that makes the total weight this; undefined when it may. */
export function overweight({ maxWeight, overflow }: Bounds, weight: number): Refusal | undefined {
  return weight > maxWeight ? { bound: 'maxWeight', limit: maxWeight, policy: now(overflow), isLaneFull: false, excess: 1 } : undefined;
}

/** Why no entry with a new key may come where so many keys are in use; undefined when it may. */
export function tooManyKeys({ maxKeys, overflow }: Bounds, keys: number): Refusal | undefined {
  return keys >= maxKeys ? { bound: 'maxKeys', limit: maxKeys, policy: now(overflow), isLaneFull: false, excess: 1 } : undefined;
}

/** Whether nothing may wait in the lane: what cannot start at once is refused. */
export function mayNotWait({ maxQueued, lanes }: Bounds, lane = 0): boolean {
  return now(maxQueued) === 0 || lanes[lane]?.maxQueued === 0;
}

/** Whether any number of entries may wait, whatever happens, so that a long queue is to be reported. */
export function isUnbounded({ maxQueued }: Bounds): boolean {
  return maxQueued === Infinity;
}

/** Whether a bound on all entries, or on those of a lane, may refuse a newcomer. */
export function mayRefuse(bounds: Bounds): boolean {
  return !isUnbounded(bounds) || bounds.lanes.some(({ maxQueued = Infinity }) => maxQueued < Infinity);
}

/** How many more a consumer that pulls may ask for where so many entries wait. */
export function room({ maxQueued }: Bounds, queued: number): number {
  return now(maxQueued) - queued;
}

/** Whether a producer that can wait waits for room, instead of failing: only where entries are bounded and none is evicted. */
export function waitsForRoom({ maxQueued, overflow }: Bounds): boolean {
  return now(maxQueued) < Infinity && now(overflow) === 'error';
}

/** Whether so many results are held back that only the one they wait for may start. */
export function holdsTooMuch({ maxQueued }: Bounds, held: number): boolean {
  const most = now(maxQueued);
  return held > 0 && held >= (most === Infinity ? MOST_HELD : most);
}

// ---- which entries go -----------------------------------------------------------------------------------------------

/** How many of a line of so many entries go at its old end, where up to `most` have to; 0 when the newcomer goes. */
export function evictions({ policy }: Pick<Refusal, 'policy'>, length: number, most = 1): number {
  if (policy === 'latest') return length;
  return policy === 'dropOldest' ? Math.min(length, most) : 0;
}

/**
 * The entries of a queue that go for a newcomer of this lane, in the order in which they go. `most` is 1 where one goes for each newcomer, and the
 * refusal's `excess` where the bound is to be kept again. Entries that do not count are no jobs of their own, and stay.
 */
export function evictable<E extends Waiter<E>>(
  queue: GrantQueue<E>,
  lane: number,
  { lanes }: Bounds,
  refused: Refusal,
  most = 1,
  counts: (entry: E) => boolean = () => true,
): readonly E[] {
  const evicted: E[] = [];
  const wanted = evictions(refused, Infinity, most);
  if (wanted > 0) {
    queue.each(lane, (entry) => {
      if (counts(entry)) evicted.push(entry);
      return evicted.length < wanted;
    });
  } else if (refused.policy === 'dropLowest' && !refused.isLaneFull) {
    for (let lowest = lanes.length - 1; lowest > lane && evicted.length < most; lowest--)
      evicted.push(...newest(queue, lowest, most - evicted.length, counts));
  }
  return evicted;
}

/** So many of the newest entries of a lane, the newest first. */
function newest<E extends Waiter<E>>(queue: GrantQueue<E>, lane: number, most: number, counts: (entry: E) => boolean): readonly E[] {
  const last = queue.newest(lane);
  if (last === undefined) return [];
  // A long lane is not gone through for one entry.
  if (most === 1 && counts(last)) return [last];
  const all: E[] = [];
  queue.each(lane, (entry) => {
    if (counts(entry)) all.push(entry);
    return true;
  });
  return all.slice(-most).reverse();
}

/** The line of one key. */
interface KeyLine {
  readonly length: number;
}

/**
 * Of which line the oldest entries go for a newcomer with the key of `own`, and how many: of its own where something waits, else one of the longest.
 * Undefined when the newcomer goes, as one with a key too many always does.
 */
export function evictableKey<L extends KeyLine>(
  lines: Iterable<L>,
  own: L | undefined,
  refused: Refusal,
): { line: L; count: number } | undefined {
  if (refused.bound === 'maxKeys' || evictions(refused, 1) === 0) return undefined;
  let line = own?.length ? own : undefined;
  if (line === undefined) for (const other of lines) if (other.length > (line?.length ?? 0)) line = other;
  return line && { line, count: evictions(refused, line === own ? line.length : 1) };
}

/** What waits for one consumer, oldest first. */
interface OneLine<T> {
  readonly length: number;
  push(entry: T): void;
  shift(): T | undefined;
}

/**
 * Lets an entry into a full line, for the oldest ones; answers what is evicted, which is the newcomer itself where no other goes. `isFull` says whether
 * one eviction was not enough.
 */
export function pushEvicting<T>(line: OneLine<T>, entry: T, refused: Refusal, isFull: () => boolean = () => false): T[] {
  let left = refused.limit === 0 ? 0 : evictions(refused, line.length);
  if (left === 0) return [entry];
  const evicted: T[] = [];
  do evicted.push(line.shift() as T);
  while (line.length > 0 && (--left > 0 || isFull()));
  line.push(entry);
  return evicted;
}
