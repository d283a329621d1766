import type { CallFacts } from '../../account/entry.js';

/** What is done about one request: its calls, one for each round, for every caller that waits for the answer. */
export class Inquiry {
  /** How often anything was sent for it. */
  sent = 0;
  /** The answer is there, and on its way to the callers. */
  isAnswered = false;

  constructor(
    readonly traceId: string,
    readonly name: string,
    /** Of the most urgent caller. */
    public lane: string,
    readonly key: string | undefined,
    /** When its callers are cut off, on the model caller's clock. */
    public endsAt: number,
  ) {}
}

/** One call, with all its attempts. */
export class ModelCall {
  /** How often it has been sent. */
  sent = 0;
  /** Attempts under way. */
  running = 0;
  readonly lane: string;

  constructor(
    readonly inquiry: Inquiry,
    /** Tells it from all others in events. */
    readonly id: string,
    /** What the account knows of it; undefined without one. */
    readonly facts: CallFacts | undefined,
    /** When its own deadline passes, on the model caller's clock. */
    readonly endsAt: number,
  ) {
    this.lane = inquiry.lane;
  }

  /** When it is cut off, by its own deadline or with its callers. */
  get deadlineAt(): number {
    return Math.min(this.endsAt, this.inquiry.endsAt);
  }
}
