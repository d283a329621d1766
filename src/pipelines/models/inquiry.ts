/** What is done about one request: its calls, one for each round, for everybody who waits for the answer. */
export class Inquiry {
  /** How often anything was sent for it. */
  sent = 0;
  /** The answer is there, and on its way to whoever waits. */
  isAnswered = false;

  constructor(
    readonly traceId: string,
    readonly name: string,
    /** Of the most urgent who waits. */
    public lane: string,
    readonly key: string | undefined,
    /** When whoever waits is cut off, on the caller's clock. */
    public endsAt: number,
  ) {}
}
