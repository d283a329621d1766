/** The asynchronous context of a moment: what is kept there (a user, a trace) belongs to the caller. */
export interface AsyncContext {
  /** Calls the work in this context. */
  run<A, R>(work: (argument: A) => R, argument: A): R;
}

/** A value that belongs to an asynchronous context. */
export interface ContextVariable<V> {
  /** That of now; undefined outside of `run`. */
  get(): V | undefined;
  /** Calls the work in a context that has this value. */
  run<R>(value: V, work: () => R): R;
}

const HERE: AsyncContext = { run: (work, argument) => work(argument) };

/**
 * The current context, for work that begins later, inside another caller's call. This version is for platforms that have no such contexts; the
 * package's `imports` put that of Node in its place.
 */
export function captureContext(): AsyncContext {
  return HERE;
}

/** A variable of contexts; on platforms without contexts it never has a value. */
export function contextVariable<V>(): ContextVariable<V> {
  return { get: () => undefined, run: (_value, work) => work() };
}
