/** Items that must have failed alone before the rest is given up. Batches of up to so many are always cut up to the end. */
const ENOUGH_ALONE = 8;

/**
 * What a message has of its own call and not of its cause: ids of requests, addresses, times and durations. Numbers of up to five digits
 * are left as they are, because that is how an error names its item.
 */
const OF_ONE_CALL = /* @__PURE__ */ anyOf([
  /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/, // a UUID
  /0x[\da-f]+/,
  /\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?/, // a time of day
  /(?<![\da-z])(?=[a-f]*\d)[\da-f]{8,}(?![\da-z])(?:\.\d{1,9})?/, // a hexadecimal id, a time since 1970
  /(?<![\da-z])(?=[a-z]*\d)[\da-z]{16,}/, // an id of letters and digits
  /\d{6,}/, // a time without separators
  /\d{1,5}(?:\.\d{1,9})? ?(?:ms|s|sec|seconds?|milliseconds?)\b/,
]);

function anyOf(patterns: readonly RegExp[]): RegExp {
  return new RegExp(patterns.map(({ source }) => source).join('|'), 'gi');
}

/**
 * Watches a batch that is being cut up for the sign that no item is to blame: work that fails whatever it is given.
 *
 * The sign is that nothing has ever succeeded, that every error is one nobody recognises and looks like the first (but for ids of
 * requests and times in its message), that each of the parts the batch was cut into first has failed, and that eight items have
 * failed alone. If three items in ten were really bad, this would be wrong about one batch in fifteen thousand.
 */
export class FaultWatch {
  #mark: string | undefined;
  #isRuledOut = false;
  /** Of the parts the batch was cut into first, those that have not failed. */
  #untried = 0;
  #alone = 0;

  /** Items that have failed alone with what may be the same fault in all of them. */
  get alone(): number {
    return this.#isRuledOut ? 0 : this.#alone;
  }

  get isHopeless(): boolean {
    return this.#untried === 0 && this.alone >= ENOUGH_ALONE;
  }

  /** Something came of a call, or an error says what it is about: there are items to be told apart. */
  ruleOut(): void {
    this.#isRuledOut = true;
  }

  /** The whole batch is cut into so many parts. */
  cut(parts: number): void {
    this.#untried = parts;
  }

  /** A call failed with an error nobody recognises. */
  failed(error: unknown, size: number, isFirstPart: boolean): void {
    const mark = markOf(error);
    this.#mark ??= mark;
    if (mark !== this.#mark) this.ruleOut();
    if (isFirstPart) this.#untried--;
    if (size === 1) this.#alone++;
  }
}

/** What two errors have in common when they are about the same. */
function markOf(error: unknown): string {
  if (typeof error === 'string') return lasting(error);
  if (typeof error !== 'object' || error === null) return `${typeof error} ${String(error)}`;
  const { name, code, status, message } = error as Readonly<Record<string, unknown>>;
  const kind = [name, code, status].map((field) => (typeof field === 'string' || typeof field === 'number' ? field : ''));
  return [...kind, typeof message === 'string' ? lasting(message) : ''].join('\n');
}

function lasting(message: string): string {
  return message.replaceAll(OF_ONE_CALL, '#');
}
