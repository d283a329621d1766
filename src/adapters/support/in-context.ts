/**
 * The same function, run in the asynchronous context of this moment: what is stored there (the trace of an agent, the user of a request) is that
 * of whoever asks, and not that of whoever gives a permit back. Promises carry it along, on every platform. One call after the other.
 */
export function inContext<A, R>(work: (argument: A) => PromiseLike<R>): (argument: A) => Promise<R> {
  let go: (argument: A) => void;
  let result: Promise<R>;
  let isWaiting = false;
  const wait = (): void => {
    if (isWaiting) return;
    isWaiting = true;
    result = new Promise<A>((resolve) => {
      go = resolve;
    }).then((argument) => {
      // Here, where the context is the right one, also for the next call.
      wait();
      return work(argument);
    });
  };
  wait();
  return (argument) => {
    // In virtual time the next call may come before the context of this one is back.
    wait();
    isWaiting = false;
    const mine = result;
    go(argument);
    return mine;
  };
}
