/** What a stream of the server does; it stands as JSON in the question. */
export interface StreamPlan {
  readonly id: string;
  /** Chunks of text before its end. */
  readonly chunks: number;
  /** Pause before each of them, in ms. */
  readonly gapMs: number;
  /** How it goes on after its chunks: well, by an event that says what went wrong, by a cut connection, by silence, or for ever. */
  readonly then: 'end' | 'error' | 'cut' | 'silence' | 'more';
  /** How long the server lingers between its last word and its end, in ms. */
  readonly tailMs: number;
}

/** One stream as the server has seen it: from its request to the end of its response or its connection. */
export interface StreamEnd {
  readonly id: string;
  /** By the clock of the machine. */
  readonly at: number;
}

export type ServerMessage =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'begun'; readonly id: string; readonly inFlight: number }
  | ({ readonly type: 'ended'; readonly inFlight: number } & StreamEnd);
