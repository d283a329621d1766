import type { AccountedCall } from './accounted-call.js';
import type { EnteredAttempt } from './entered-attempt.js';
import type { Over } from './held-call.js';
import { heldCall } from './held-call.js';
import type { Held } from './held-rules.js';
import { whenCollected } from './when-collected.js';

/** A call whose answer is an iterable. */
export interface EachCall<C> {
  open(attempt: EnteredAttempt): AsyncIterable<C>;
  /** Sees each value on its way. */
  look(value: C, attempt: EnteredAttempt): void;
}

/** An iterable whose first value is here, or its end. */
interface Begun<C> {
  readonly values: AsyncIterator<C>;
  readonly first: IteratorResult<C>;
  readonly attempt: EnteredAttempt;
  readonly over?: Over;
}

/** What is to be ended when the reader has left. */
interface UnderWay {
  end?: (() => void) | undefined;
}

/**
 * The values of an iterable, each asked for when its reader asks. The call is made when the first one is asked for, and made again until that is
 * here. The attempt, its permit and its signal last until the iterable has ended, has failed, was left or was collected.
 */
export function heldEach<C>(held: Held, how: AccountedCall, call: EachCall<C>): AsyncGenerator<C, void, undefined> {
  const underWay: UnderWay = {};
  const each = eachOf(held, how, call, underWay);
  whenCollected(each, () => underWay.end?.());
  return each;
}

async function* eachOf<C>(held: Held, how: AccountedCall, call: EachCall<C>, underWay: UnderWay): AsyncGenerator<C, void, undefined> {
  const { values, first, attempt, over } = await heldCall<Begun<C>>(held, how, {
    open: async (context) => {
      const iterator = call.open(context)[Symbol.asyncIterator]();
      return { values: iterator, first: await iterator.next(), attempt: context };
    },
    follow: (begun, end) => ({ ...begun, over: end }),
    discard: (begun) => void begun.values.return?.().catch(() => undefined),
  });
  underWay.end = () => {
    values.return?.().catch(() => undefined);
    over?.abandoned();
  };
  let isLeft = true;
  const next = (): Promise<IteratorResult<C>> =>
    new Promise((resolve, reject) => {
      over?.onFault(reject);
      values.next().then(resolve, reject);
    });
  try {
    for (let step = first; step.done !== true; step = await next()) {
      call.look(step.value, attempt);
      yield step.value;
    }
    isLeft = false;
    // There are clients that end a stream as if it were whole when it was aborted.
    attempt.signal.throwIfAborted();
    over?.ended();
  } catch (error) {
    isLeft = false;
    values.return?.().catch(() => undefined);
    throw over?.failed(error);
  } finally {
    underWay.end = undefined;
    if (isLeft) {
      over?.left();
      await values.return?.();
    }
  }
}
