/** A signal of ours that aborts with another one. */
export interface RelayedSignal {
  readonly signal: AbortSignal;
  /** Listens no more. */
  stop(): void;
}

/**
 * The other signal is held weakly: those of the clients hear of their streams (a listener that cancels what they read), and whoever holds
 * the signal holds the stream, which is then never collected.
 */
export function relayedSignal(other: AbortSignal): RelayedSignal {
  const own = new AbortController();
  if (other.aborted) own.abort(other.reason);
  const listener = ({ target }: Event): void => {
    own.abort((target as AbortSignal).reason);
  };
  other.addEventListener('abort', listener, { once: true });
  const weak = new WeakRef(other);
  return {
    signal: own.signal,
    stop: () => {
      weak.deref()?.removeEventListener('abort', listener);
    },
  };
}
