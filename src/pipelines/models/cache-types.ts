/**
 * Where answers are kept. A `Map` is one, and so are most caches; each method may answer later, with a promise.
 * @beta
 */
export interface AnswerStorage<P> {
  /** What `set` was given; undefined or null when there is nothing. By way of JSON is well. */
  get(key: string): ModelEntry<P> | null | undefined | PromiseLike<ModelEntry<P> | null | undefined>;
  /** What it answers is waited for, not looked at. */
  set(key: string, entry: ModelEntry<P>): unknown;
  delete(key: string): unknown;
}

/** An answer that is kept. */
export interface ModelEntry<P> {
  /** What `call` would have emitted. */
  readonly value: P;
  /** Until when it is good, on the caller's scheduler; null for ever. It is looked at when it is read. */
  readonly expiresAt: number | null;
}

/**
 * Answers for requests that were asked before, or are being asked.
 * @beta
 */
export interface ModelCacheOptions<Q, P> {
  /** What equal requests have in common; undefined for one that has to be asked in any case. It should name model, prompt and parameters, or a hash of them. */
  readonly key: (request: Q) => string | undefined;
  /** How long an answer is good, in ms from when it came. @defaultValue Infinity */
  readonly ttlMs?: number;
  /** @defaultValue in memory: the last 1,000 answers at least, and 2,000 at most */
  readonly storage?: AnswerStorage<P>;
  /** How long the store may take for one request, in ms; then the call continues without it. @defaultValue 1000 */
  readonly timeoutMs?: number;
}
