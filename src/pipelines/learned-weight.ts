/** Of the bounds of what is learned: an estimate is not wrong by more, so what says so is about something else. */
const MOST = 2.5;
/** On top of what a script has turned out to take: texts of it differ. */
const MARGIN = 1.04;
/** On top of the estimate while nothing is known: no language of a script that is estimated here takes more on average. */
const UNKNOWN = 1.25;
/** Characters at the start of a text that tell what it is written in. */
const SAMPLE = 200;

/** How the tokens of texts of one kind compare with their estimates. */
interface Learned {
  /** Tokens for each estimated one. */
  ratio: number;
  /** The same, with what is needed on top for a batch to stay within its bound. */
  factor: number;
}

/**
 * Weighs texts by estimated tokens, and learns from what calls have taken how far the estimates are off: apart for each script, and
 * within it for texts that are as dense (tokens for a character), because languages and kinds of text are told apart by that. What was never seen weighs more than it is estimated
 * to take, so that the first batches keep to the bound as well.
 */
export class LearnedWeight {
  readonly #estimate: (text: string) => number;
  readonly #kinds = new Map<number, Learned>();
  /** The same text is often weighed twice in a row. */
  #last = { text: '', tokens: 0 };

  /** @param estimate without a margin */
  constructor(estimate: (text: string) => number) {
    this.#estimate = estimate;
  }

  /** Tokens that a text takes in a batch. */
  weigh(text: string): number {
    const kind = this.#kindOf(text);
    return this.#tokensOf(text) * (this.#kinds.get(kind)?.factor ?? this.#besides(kind));
  }

  /** Tokens that a text takes most likely. */
  expected(text: string): number {
    return this.#tokensOf(text) * (this.#kinds.get(this.#kindOf(text))?.ratio ?? 1);
  }

  /** A call with these texts has taken so many tokens. */
  learn(texts: readonly string[], tokens: number): void {
    if (!(tokens > 0 && tokens < Infinity)) return;
    const shares = new Map<number, number>();
    let expected = 0;
    for (const text of texts) {
      const kind = this.#kindOf(text);
      const tokensOfText = this.expected(text);
      shares.set(kind, (shares.get(kind) ?? 0) + tokensOfText);
      expected += tokensOfText;
    }
    const off = tokens / expected;
    for (const [kind, share] of shares) {
      const known = this.#kinds.get(kind);
      const { ratio } = known ?? { ratio: 1 };
      const next = clamped(ratio * off ** (share / expected));
      // Of a kind that was a small part of the batch nothing is known yet.
      if (known === undefined && share < 0.02 * expected) continue;
      this.#kinds.set(
        kind,
        known ? { ratio: (ratio + next) / 2, factor: ((ratio + next) / 2) * MARGIN } : { ratio: next, factor: next * MARGIN },
      );
    }
  }

  /** What little is known of a kind that was never seen: that it is much like those that are nearly as dense. */
  #besides(kind: number): number {
    const near = Math.max(this.#kinds.get(kind - 1)?.factor ?? 0, this.#kinds.get(kind + 1)?.factor ?? 0);
    return near === 0 ? UNKNOWN : Math.min(UNKNOWN, near * MARGIN);
  }

  #tokensOf(text: string): number {
    if (this.#last.text !== text) this.#last = { text, tokens: this.#estimate(text) };
    return this.#last.tokens;
  }

  /** Steps of a fifth in tokens for a character, for each script. */
  #kindOf(text: string): number {
    const sample = text.length > SAMPLE ? text.slice(0, SAMPLE) : text;
    return 100 * scriptOf(sample) + Math.round(4 * Math.log2(Math.max(1, this.#estimate(sample)) / sample.length));
  }
}

/** The block of the first letter that is not Latin; those of Chinese and Japanese are one. 0 without any. */
function scriptOf(text: string): number {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= 0x370 && code < 0x2000) return code >> 7;
    if (code >= 0x3040 && code < 0xd800) return code < 0xac00 ? 100 : 101;
  }
  return 0;
}

function clamped(ratio: number): number {
  return Math.min(MOST, Math.max(1 / MOST, ratio));
}
