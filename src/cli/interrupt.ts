import type { Host } from './host.js';

/** What the user's interrupts ask for. */
export interface Interrupts {
  /** Aborts at the first interrupt. */
  readonly stop: AbortSignal;
  /** Aborts at the second. */
  readonly abort: AbortSignal;
  /** Stops listening. */
  dispose(): void;
}

/** Listens to SIGINT and SIGTERM; `onFirst` is called at the first. A third one ends the process, should anything hold it up. */
export function onInterrupt(host: Host, onFirst: () => void): Interrupts {
  const stop = new AbortController();
  const abort = new AbortController();
  const interrupt = (): void => {
    if (stop.signal.aborted) {
      dispose();
      abort.abort();
      return;
    }
    stop.abort();
    onFirst();
  };
  const signals = ['SIGINT', 'SIGTERM'] as const;
  const dispose = (): void => {
    for (const signal of signals) host.off(signal, interrupt);
  };
  for (const signal of signals) host.on(signal, interrupt);
  return {
    stop: stop.signal,
    abort: abort.signal,
    dispose,
  };
}
