import { captureContext } from '#async-context';

/**
 * The same function, run in the asynchronous context of this moment: what is stored there (the trace of an agent, the user of a request) is that
 * of whoever asks, and not that of whoever gives a permit back.
 */
export function inContext<A, R>(work: (argument: A) => R): (argument: A) => R {
  const context = captureContext();
  return (argument) => context.run(work, argument);
}
