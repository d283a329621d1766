/** Of the bounds of what is learned: an estimate is not wrong by more, so what says so is about something else. */
const MOST = 2.5;
/** Least that is added to a learned weight, because texts of one kind differ. Where calls differ more, twice their standard deviation, up to a bound. */
const MARGIN = 0.04;
const MOST_MARGIN = 0.1;
/** Added beside that after the first call; half of it after the second, and so on. */
const FIRST_MARGIN = 0.05;
/** Weight of the newest call in the standard deviation. */
const NEWEST = 0.1;
/** Added to the estimate while nothing is known: no language of a script that is estimated here takes more on average. */
const UNKNOWN_MARGIN = 0.25;
/** Characters at the start of a text that tell what it is written in. */
const SAMPLE = 200;

/** How the tokens of texts of one kind compare with their estimates. */
interface Learned {
  /** Tokens for each estimated one. */
  readonly ratio: number;
  /** Calls that this is learned from. A call with few tokens counts as a part of one: a single text says little of its kind. */
  readonly calls: number;
}

/**
 * Weighs texts by estimated tokens, and learns from the usage of calls how far the estimates are off: apart for each script, and within it for each density
 * (tokens per character), which tells languages and kinds of text apart. Texts of an unknown kind weigh more than their estimate, so that the first batches
 * keep to the bound as well.
 *
 * The step is that of normalized least mean squares (Widrow and Hoff, 1960; Nagumo and Noda, 1967), of logarithms.
 */
export class LearnedWeight {
  readonly #estimate: (text: string) => number;
  readonly #kinds = new Map<number, Learned>();
  /** Most tokens of a call so far. */
  #mostTokens = 0;
  /** Mean square of the logarithms by which calls of known kinds were off, and the margin that follows from it. */
  #variance = 0;
  #margin = MARGIN;
  /** The same text is often weighed twice in a row. */
  #last = { text: '', tokens: 0 };

  /** @param estimate without a margin */
  constructor(estimate: (text: string) => number) {
    this.#estimate = estimate;
  }

  /** Tokens that a text takes in a batch. */
  weigh(text: string): number {
    const kind = this.#kindOf(text);
    return this.#tokensOf(text) * (this.#factorOf(kind) ?? this.#besides(kind));
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
    // The smallest change of all kinds in the call that makes its sum right.
    let norm = 0;
    for (const share of shares.values()) norm += share ** 2;
    this.#mostTokens = Math.max(this.#mostTokens, tokens);
    const calls = tokens / this.#mostTokens;
    const isKnown = Array.from(shares.keys()).every((kind) => this.#kinds.has(kind));
    if (isKnown) {
      this.#variance += (Math.log(off) ** 2 - this.#variance) * NEWEST * calls;
      this.#margin = Math.min(MOST_MARGIN, Math.max(MARGIN, 2 * Math.sqrt(this.#variance)));
    }
    for (const [kind, share] of shares) {
      const known = this.#kinds.get(kind);
      const { ratio } = known ?? { ratio: 1 };
      const next = clamped(ratio * off ** ((share * expected) / norm));
      // Of a kind that was a small part of the batch nothing is known yet.
      if (known === undefined && share < 0.02 * expected) continue;
      this.#kinds.set(kind, known ? { ratio: ratio + (next - ratio) * (calls / 2), calls: known.calls + calls } : { ratio: next, calls });
    }
  }

  /** Tokens for each estimated one, with what is needed on top for a batch to stay within its bound; undefined of a kind that was never seen. */
  #factorOf(kind: number): number | undefined {
    const known = this.#kinds.get(kind);
    return known && known.ratio * (1 + Math.min(UNKNOWN_MARGIN, this.#margin + FIRST_MARGIN / known.calls));
  }

  /** What little is known of a kind that was never seen: that it is much like those that are nearly as dense. */
  #besides(kind: number): number {
    const near = Math.max(this.#factorOf(kind - 1) ?? 0, this.#factorOf(kind + 1) ?? 0);
    return near === 0 ? 1 + UNKNOWN_MARGIN : Math.min(1 + UNKNOWN_MARGIN, near * (1 + MARGIN));
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
