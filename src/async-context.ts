type Snapshot = <A, R>(work: (argument: A) => R, argument: A) => R;

interface AsyncHooks {
  readonly AsyncLocalStorage: { snapshot(): Snapshot };
}

interface Host {
  readonly process?: { getBuiltinModule?(name: 'node:async_hooks'): AsyncHooks | undefined };
}

/**
 * The same function, run in the asynchronous context of this moment: what is stored there (the trace of an agent, the user of a request) is that
 * of whoever asks, and not that of whoever gives a permit back. Where there are no such contexts, in browsers, it is the function itself.
 */
export function inContext<A, R>(work: (argument: A) => R): (argument: A) => R {
  // Asked for and not imported: nothing of Node may be needed to load this.
  const hooks = (globalThis as Host).process?.getBuiltinModule?.('node:async_hooks');
  if (hooks === undefined) return work;
  const run = hooks.AsyncLocalStorage.snapshot();
  return (argument) => run(work, argument);
}
