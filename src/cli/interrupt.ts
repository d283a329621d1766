import type { Host } from './host.js';

/** What the user's interrupts ask for. */
export interface Interrupts {
  /** Aborts at the first interrupt. */
  readonly stop: AbortSignal;
  /** Aborts at the second. */
  readonly abort: AbortSignal;
  /** Stops listening: the next interrupt ends the process. */
  dispose(): void;
}

/**
 * How long after the second interrupt further ones are ignored: one key press can reach a process more than once, and a signal without a listener ends
 * the process before it has said what is kept, and without its exit code.
 */
const GRACE_MS = 1000;

/** Listens to SIGINT and SIGTERM; `onFirst` is called at the first. A third one ends the process when the end of the run takes longer than a second. */
export function onInterrupt(host: Pick<Host, 'off' | 'on'>, onFirst: () => void): Interrupts {
  const stop = new AbortController();
  const abort = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const interrupt = (): void => {
    if (!stop.signal.aborted) {
      stop.abort();
      onFirst();
    } else if (!abort.signal.aborted) {
      abort.abort();
      timer = setTimeout(dispose, GRACE_MS).unref();
    }
  };
  const signals = ['SIGINT', 'SIGTERM'] as const;
  const dispose = (): void => {
    clearTimeout(timer);
    for (const signal of signals) host.off(signal, interrupt);
  };
  for (const signal of signals) host.on(signal, interrupt);
  return {
    stop: stop.signal,
    abort: abort.signal,
    dispose,
  };
}
