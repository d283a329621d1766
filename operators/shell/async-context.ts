/** The asynchronous context of a moment: what is kept there (a user, a trace) belongs to whoever asked. */
export interface AsyncContext {
  /** Calls the work in this context. */
  run<A, R>(work: (argument: A) => R, argument: A): R;
}

const HERE: AsyncContext = { run: (work, argument) => work(argument) };

/**
 * The context of now, for work that begins later, inside somebody else's call. This is the answer of platforms that have no such contexts; the
 * package's `imports` put that of Node in its place.
 */
export function captureContext(): AsyncContext {
  return HERE;
}
