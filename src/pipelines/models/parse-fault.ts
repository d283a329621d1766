/** An answer that could not be made into a result. The provider has done its work: making the call again would be no better. */
export class ParseFault extends Error {
  constructor(
    override readonly cause: unknown,
    /** What `repair` asks about. */
    readonly answer: unknown,
  ) {
    super('the answer could not be parsed');
  }
}
