import { check } from '../../operators/build.js';
import type { TokenEncoding } from './encoding-of.js';
import { DEFAULT_ENCODING, encodingOf, encodingOption } from './encoding-of.js';
import type { TokenWeights } from './token-weights.js';
import { KIND, kindTable, rarity, TOKEN_WEIGHTS } from './token-weights.js';

export type { TokenEncoding } from './encoding-of.js';

/** @beta */
export interface TokenEstimatorOptions {
  /**
   * Name of the model the texts are for: GPT-4o, GPT-4.1, GPT-5, o1, o3, o4 and later use o200k_base; GPT-3.5, GPT-4, the embedding models of
   * OpenAI and every other name are estimated as cl100k_base. @defaultValue none: cl100k_base
   */
  readonly model?: string;
}

/** What estimates for budgets are multiplied by: with it 1 text of 1,000 is estimated below 85 % of its tokens (`docs/tokens.md`). */
const SAFETY_MARGIN = 1.15;

/**
 * Estimates how many tokens a text has in cl100k_base, without that vocabulary: one walk over the text, by words, digits, blanks, signs and
 * scripts. A whole number; 0 for the empty text only. {@link createTokenEstimator} estimates for other models, and with a margin.
 *
 * How far estimates are off is measured on pieces of 240 characters that were not used to fit them: `bench/tokens.mjs`, `docs/tokens.md`.
 *
 * @stable
 * @example
 * ```ts
 * import { estimateTokens } from 'sluice';
 *
 * estimateTokens('Four score and seven years ago'); // => 6
 * estimateTokens(''); // => 0
 * ```
 */
export function estimateTokens(text: string): number {
  return Math.ceil(tokensIn(text, TOKEN_WEIGHTS[DEFAULT_ENCODING]));
}

/**
 * Makes an estimator with a margin of 15 %, rounded up: a `weigh` or `countTokens` for budgets that should not be passed.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or `model` is no name.
 * @example
 * ```ts
 * import { createTokenEstimator } from 'sluice';
 *
 * const count = createTokenEstimator({ model: 'gpt-4o' });
 * count('Four score and seven years ago'); // => 7
 * ```
 */
export function createTokenEstimator(options: TokenEstimatorOptions = {}): (text: string) => number {
  check.onlyKnown('createTokenEstimator', options, ['model']);
  return ESTIMATORS[encodingOption('createTokenEstimator', options)];
}

/** An estimator for a vocabulary; with a margin of 1 where what is learned from answers takes its place. */
export function estimatorOf(encoding: TokenEncoding, margin = SAFETY_MARGIN): (text: string) => number {
  const weights = TOKEN_WEIGHTS[encoding];
  return (text) => Math.ceil(tokensIn(text, weights) * margin);
}

/** The same with a margin of 15 %, for the name of a model as a request says it. */
export function estimatorFor(model: unknown): (text: string) => number {
  return ESTIMATORS[encodingOf(model)];
}

const ESTIMATORS = /* @__PURE__ */ (() => ({
  cl100k_base: estimatorOf('cl100k_base'),
  o200k_base: estimatorOf('o200k_base'),
}))();

function tokensIn(text: string, weights: TokenWeights): number {
  const { length } = text;
  const kinds = kindTable();
  let tokens = 0;
  let before: number = KIND.nothing;
  for (let start = 0; start < length; ) {
    const kind = kinds[text.charCodeAt(start)] as number;
    let end = start + 1;
    // What follows small letters is looked at below.
    if (!isSmall(kind)) while (end < length && kinds[text.charCodeAt(end)] === kind) end++;
    if (isLetter(kind)) {
      // One capital opens a word; the last of several belongs to the small letters behind it.
      const capitals = kind === KIND.upper ? end - start : 0;
      while (end < length && isSmall(kinds[text.charCodeAt(end)] as number)) end++;
      const word = capitals > 1 ? start + capitals : start;
      if (capitals > 1) tokens += weights.capitals + pairsCost(text, start, word, weights.capitalPairs);
      if (end - word > (capitals > 1 ? 1 : 0)) tokens += wordCost(text, word, end, weights, capitals > 1 ? KIND.upper : before);
      before = KIND.lower;
    } else {
      tokens += runCost(kind, end - start, before, end < length ? (kinds[text.charCodeAt(end)] as number) : KIND.nothing, weights);
      before = kind;
    }
    start = end;
  }
  return tokens;
}

function isSmall(kind: number): boolean {
  return kind === KIND.lower || (kind >= KIND.accented && kind <= KIND.combining);
}

function isLetter(kind: number): boolean {
  return kind === KIND.upper || isSmall(kind);
}

function startsWord(before: number): boolean {
  return before <= KIND.newline;
}

function wordCost(text: string, start: number, end: number, weights: TokenWeights, before: number): number {
  const { unit, pairs } = weights;
  let cost = startsWord(before) ? weights.word : weights.joinedWord;
  cost += weights.longWord * Math.max(0, end - start - 16);
  const kinds = kindTable();
  let last = 0;
  for (let at = start; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x80) cost += pairs[rarity(last, code)];
    else cost += unit[kinds[code] as number] as number;
    last = code;
  }
  return cost;
}

function pairsCost(text: string, start: number, end: number, pairs: TokenWeights['pairs']): number {
  let cost = 0;
  for (let at = start + 1; at < end; at++) cost += pairs[rarity(text.charCodeAt(at - 1), text.charCodeAt(at))];
  return cost;
}

function runCost(kind: number, length: number, before: number, after: number, weights: TokenWeights): number {
  switch (kind) {
    case KIND.blank:
      // A single blank is part of the word behind it; digits take none.
      if (length === 1) return after === KIND.digit ? weights.blankBeforeDigit : 0;
      return (before === KIND.newline ? weights.indent : weights.blanks) + weights.moreBlanks * (length - 1);
    case KIND.newline:
      return (before === KIND.punctuation ? 0 : weights.newline) + weights.moreNewlines * (length - 1);
    case KIND.digit:
      return weights.digits * Math.ceil(length / 3);
    case KIND.punctuation:
      return punctuationCost(length, before, after, weights);
    default:
      return (weights.run[kind] as number) + (weights.unit[kind] as number) * length;
  }
}

function punctuationCost(length: number, before: number, after: number, weights: TokenWeights): number {
  if (length > 1) return weights.marks + weights.moreMarks * Math.min(length - 2, 6) + weights.manyMarks * Math.max(0, length - 8);
  const joinsWord = (after === KIND.lower || after === KIND.upper) && !startsWord(before);
  return joinsWord ? weights.joinedMark : weights.mark;
}
