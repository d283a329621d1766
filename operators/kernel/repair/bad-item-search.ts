export interface SearchLimits {
  /** Most calls for the batch the search began with, that one included. */
  readonly maxCalls: number;
  readonly maxDepth: number;
  readonly maxBlameRounds: number;
}

/** What has been spent on the batch so far. */
export interface SearchSpent {
  readonly calls: number;
  readonly blameRounds: number;
  /** Items that failed alone while nothing has succeeded and every error is the same; 0 as soon as one of that is not so. */
  readonly alone: number;
}

/** What to do next. A search without anything to `send` is over. */
export interface SearchStep<T> {
  /** Bad: their own call failed, or the error named them. */
  readonly reject: readonly T[];
  /** Not resolved, for lack of budget. */
  readonly giveUp: readonly T[];
  /** Goes out now, and nothing else until its end has been told. */
  readonly send: readonly T[];
  readonly depth: number;
  /** True when the error's blame was used to send the rest in one piece. */
  readonly blamed: boolean;
}

/** Share of the rest at which each probe is taken, so that a few of them come from all over it. */
const PROBES = 7;

/**
 * Searches one failed batch for its bad items, one call at a time, in as few calls as it can.
 *
 * The failed group is halved and the first half sent. When that succeeds, the bad item is in the second half, which is therefore
 * halved without being sent whole; when it fails, the second half is put aside unsent. Once the bad item stands alone, all that was
 * put aside is sent in one piece. This takes about log2(n) + 1 calls per bad item, and for few of them less than any tree.
 *
 * For many bad items it would take more calls than there are items. So as soon as the budget holds just one call for each unresolved
 * item, one item is sent at a time: with `maxCalls` above the size of the batch no item is ever rejected untested.
 *
 * Source: the merging step of generalized binary splitting (Hwang 1972), without its need to know how many are bad.
 */
export class BadItemSearch<T> {
  readonly #limits: SearchLimits;
  readonly #isHere: (item: T) => boolean;
  /** Depth of the call the search began with. */
  readonly #root: number;
  /** Failed together with what is under way, in the smallest call that failed. */
  #suspects: readonly T[] = [];
  /** A bad item is among the suspects and what is under way. */
  #isSure = false;
  /** Depth of a call with all suspects. */
  #depth = 0;
  /** Put aside: nothing is known of these. */
  #rest: readonly T[] = [];
  #sent = 0;

  /** @param isHere - False for an item that has left meanwhile: whether it was the bad one will never be known. */
  constructor(depth: number, limits: SearchLimits, isHere: (item: T) => boolean) {
    this.#root = depth;
    this.#limits = limits;
    this.#isHere = isHere;
  }

  /** What waits for its turn. */
  get held(): readonly T[] {
    return [...this.#suspects, ...this.#rest];
  }

  /**
   * A call failed because of some of its items; the first one told is the call the search begins with.
   *
   * @param blamed - Those of the call that its error names; nothing, when it names none that can be trusted.
   */
  failed(call: readonly T[], depth: number, blamed: ReadonlySet<T> | undefined, spent: SearchSpent): SearchStep<T> {
    this.#rest = this.held;
    if (blamed === undefined) {
      this.#suspects = call.length === 1 ? [] : call;
      this.#isSure = true;
      this.#depth = depth;
      return { ...this.#next(call.length === 1 ? call : [], spent), blamed: false };
    }
    const others = call.filter((item) => !blamed.has(item));
    const isWhole = spent.blameRounds < this.#limits.maxBlameRounds;
    this.#rest = isWhole ? [...others, ...this.#rest] : this.#rest;
    this.#suspects = isWhole ? [] : others;
    this.#isSure = false;
    this.#depth = depth;
    const named = call.filter((item) => blamed.has(item));
    return { ...this.#next(named, spent), blamed: isWhole };
  }

  /** A call succeeded: all its items are good. */
  succeeded(call: readonly T[], spent: SearchSpent): SearchStep<T> {
    // An item left before the call, and may have been the bad one.
    if (call.length < this.#sent) this.#isSure = false;
    if (!this.#isSure) return this.inconclusive(spent);
    return { ...this.#next([], spent), blamed: false };
  }

  /** A call is over and says nothing about its items: it failed for another reason, or all its items had left. */
  inconclusive(spent: SearchSpent): SearchStep<T> {
    this.#rest = this.held;
    this.#suspects = [];
    return { ...this.#next([], spent), blamed: false };
  }

  #next(reject: readonly T[], spent: SearchSpent): Omit<SearchStep<T>, 'blamed'> {
    const { maxCalls, maxDepth } = this.#limits;
    const suspects = this.#suspects.filter(this.#isHere);
    if (suspects.length < this.#suspects.length) this.#isSure = false;
    this.#suspects = suspects;
    this.#rest = this.#rest.filter(this.#isHere);
    const step = { reject: reject.filter(this.#isHere), giveUp: [] as readonly T[] };

    if (suspects.length > 1 && this.#depth >= maxDepth) {
      step.giveUp = suspects;
      this.#suspects = [];
    }
    const unresolved = this.#suspects.length + this.#rest.length;
    const affordable = maxCalls - spent.calls;
    if (affordable < 1 || this.#root >= maxDepth) {
      step.giveUp = [...step.giveUp, ...this.held];
      this.#suspects = [];
      this.#rest = [];
    }
    return { ...step, ...this.#take(affordable === unresolved, spent.alone) };
  }

  /** Takes what is to be sent next. */
  #take(oneByOne: boolean, alone: number): { readonly send: readonly T[]; readonly depth: number } {
    const suspects = this.#suspects;
    if (suspects.length > 1) {
      const half = oneByOne ? 1 : suspects.length >> 1;
      const depth = this.#depth + 1;
      // One that is taken out leaves the others where they were, unless there is only one of them.
      if (!oneByOne || suspects.length === 2) this.#depth = depth;
      this.#suspects = suspects.slice(half);
      return this.#sending(suspects.slice(0, half), depth);
    }
    this.#suspects = [];
    if (suspects.length === 1 && this.#isSure) return this.#sending(suspects, this.#depth);
    const all = [...suspects, ...this.#rest];
    const from = oneByOne ? 0 : probed(alone, all.length);
    this.#rest = from === undefined ? [] : all.filter((_, i) => i !== from);
    this.#isSure = false;
    return this.#sending(from === undefined ? all : all.slice(from, from + 1), this.#root + 1);
  }

  #sending(send: readonly T[], depth: number): { readonly send: readonly T[]; readonly depth: number } {
    this.#sent = send.length;
    return { send, depth };
  }
}

/** Which one is sent alone to see whether anything can succeed at all; nothing, when there is no reason to doubt that. */
function probed(alone: number, size: number): number | undefined {
  return alone === 0 || size === 0 ? undefined : Math.floor(((size - 1) * Math.min(alone, PROBES)) / PROBES);
}
