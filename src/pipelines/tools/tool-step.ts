import type { ObservableInput } from 'rxjs';
import { isObservable, Subscription } from 'rxjs';
import { fromStream } from '../../../operators/from-stream.js';
import { Call, isPromise, report } from '../../../operators/toolkit.js';
import type { ReadableStreamLike } from '../../../operators/types.js';
import type { ToolOutput } from './tool-types.js';

/** Waits for one answer at a time: that of a schema, a guard or a tool. An answer that is no promise and no stream takes no time. */
export class Step {
  #current: Subscription | undefined;
  #promise: PromiseLike<unknown> | undefined;

  /** Exactly one of the two is called, unless it is stopped before. Neither must throw. Work is told who is unsubscribed when it is over or stopped. */
  follow<R>(work: (owner: Subscription) => ToolOutput<R>, done: (answer: R) => void, failed: (error: unknown) => void): void {
    const current = new Subscription();
    this.#current = current;
    /** False when it was stopped, maybe by the work itself. */
    const ends = (): boolean => {
      if (this.#current !== current) return false;
      this.#current = undefined;
      this.#promise = undefined;
      return true;
    };
    let output: ToolOutput<R>;
    let later: ObservableInput<unknown> | undefined;
    try {
      output = work(current);
      later = laterOf(output, current);
    } catch (error) {
      if (ends()) failed(error);
      return;
    }
    if (later === undefined) {
      if (ends()) done(output as R);
      return;
    }
    if (this.#current !== current) {
      // Nobody hears of its failure any more.
      if (isPromise(later)) later.then(undefined, () => undefined);
      return;
    }
    if (isPromise(later)) this.#promise = later;
    const call = new Later<R>(
      later as ObservableInput<R>,
      (answer) => {
        if (ends()) done(answer);
      },
      (error) => {
        if (ends()) failed(error);
      },
    );
    current.add(() => {
      call.stop();
    });
    call.begin();
  }

  /** Stops listening; returns what goes on all the same, because a promise cannot be stopped. */
  stop(): PromiseLike<unknown> | undefined {
    const current = this.#current;
    const promise = this.#promise;
    this.#current = undefined;
    this.#promise = undefined;
    try {
      current?.unsubscribe();
    } catch (error) {
      // A teardown of yours that throws must not keep the call, or those beside it, from being given up.
      report(error);
    }
    return promise;
  }
}

/** Waits for what comes later. */
class Later<R> extends Call<R> {
  readonly #later: ObservableInput<R>;
  readonly done: (answer: R) => void;
  readonly failed: (error: unknown) => void;

  constructor(later: ObservableInput<R>, done: (answer: R) => void, failed: (error: unknown) => void) {
    super();
    this.#later = later;
    this.done = done;
    this.failed = failed;
  }

  work(): ObservableInput<R> {
    return this.#later;
  }
}

/** What there is to wait for; undefined for an answer. A text or a list is an answer, and not a stream of its parts. */
export function laterOf(output: unknown, owner: Subscription): ObservableInput<unknown> | undefined {
  if (typeof output !== 'object' || output === null) return undefined;
  if (isObservable(output)) return output;
  // Asked once: some start their work each time they are asked, and others settle twice.
  if (isPromise(output)) return Promise.resolve(output);
  if ('getReader' in output) return fromStream(() => output as ReadableStreamLike<unknown>);
  return Symbol.asyncIterator in output ? lastOf(output as AsyncIterable<unknown>, owner) : undefined;
}

/** The last part of an async iterable. A promise, because it cannot be stopped between two parts either: it keeps its slot until it ends. */
async function lastOf(parts: AsyncIterable<unknown>, owner: Subscription): Promise<unknown> {
  const iterator = parts[Symbol.asyncIterator]();
  owner.add(() => {
    // How it takes that is of no interest any more.
    Promise.resolve()
      .then(() => iterator.return?.())
      .catch(() => undefined);
  });
  let last: unknown;
  for (let part = await iterator.next(); part.done !== true && !owner.closed; part = await iterator.next()) last = part.value;
  return last;
}
