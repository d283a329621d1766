/** An answer that could not be made into a result. The provider has done its work: making the call again would be no better. */
export class ParseFault extends Error {
  readonly #answer: unknown;

  constructor(
    override readonly cause: unknown,
    answer: unknown,
  ) {
    super('the answer could not be parsed');
    this.#answer = answer;
  }

  /** Not `instanceof`, which a proxy of a foreign error can make throw. */
  static is(error: unknown): error is ParseFault {
    return typeof error === 'object' && error !== null && #answer in error;
  }

  /** What `fixAnswer` asks about. */
  get answer(): unknown {
    return this.#answer;
  }
}
