/** A signal of ours that aborts with another one. */
export interface RelayedSignal {
  readonly signal: AbortSignal;
  /** Listens no more. */
  stop(): void;
}

/** What aborts with each signal, which has one listener of ours for all of them: Node warns of a leak above ten. */
const GROUPS = new WeakMap<AbortSignal, Set<AbortController>>();

function relay({ target }: Event): void {
  const signal = target as AbortSignal;
  const group = GROUPS.get(signal) ?? [];
  GROUPS.delete(signal);
  for (const own of group) own.abort(signal.reason);
}

/**
 * The other signal is held weakly. A client's signal has a listener that cancels the stream it reads, so holding the signal would hold the stream,
 * which would then never be collected.
 */
export function relayedSignal(other: AbortSignal): RelayedSignal {
  const own = new AbortController();
  if (other.aborted) {
    own.abort(other.reason);
    return { signal: own.signal, stop: () => undefined };
  }
  const group = GROUPS.get(other) ?? new Set();
  if (group.size === 0) {
    GROUPS.set(other, group);
    other.addEventListener('abort', relay, { once: true });
  }
  group.add(own);
  const weak = new WeakRef(other);
  return {
    signal: own.signal,
    stop: () => {
      const signal = weak.deref();
      if (!group.delete(own) || group.size > 0 || signal === undefined) return;
      GROUPS.delete(signal);
      signal.removeEventListener('abort', relay);
    },
  };
}
