/** What a reader that takes one value at a time tells a source that can wait. */
export interface Demand {
  /** Most values that may still be on their way to it; 0 while what it has waits to be read. */
  room(): number;
  /** Calls the listener when there is room again; the answer stops that. */
  onRoom(listener: () => void): () => void;
}

/**
 * The reader of the source that is being subscribed to now. Operators in between need not know of it: they subscribe to their sources before their
 * own `subscribe` returns. Set for that long only.
 */
let reader: Demand | undefined;

/** Subscribes on behalf of a reader, if there is one. */
export function readBy(demand: Demand | undefined, subscribe: () => void): void {
  const outer = reader;
  reader = demand;
  try {
    subscribe();
  } finally {
    reader = outer;
  }
}

/** The reader on whose behalf the subscription that begins now is made. */
export function currentReader(): Demand | undefined {
  return reader;
}
