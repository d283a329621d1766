import { check } from '../../operators/build.js';
import { FlowError } from '../../operators/index.js';
import { encodingOption } from './encoding-of.js';

/** @stable */
export interface GptTokenCounterOptions {
  /** `'o200k_base'`: GPT-4o and later; `'cl100k_base'`: GPT-4, GPT-3.5 and all embedding models of OpenAI. @defaultValue that of `model` */
  readonly encoding?: 'o200k_base' | 'cl100k_base';
  /** Name of the model the texts are for, which chooses the encoding. Not together with `encoding`. @defaultValue none: cl100k_base */
  readonly model?: string;
}

/**
 * Longest unbroken run of letters, signs or white space that is counted in one piece. The cost of merging a run grows
 * with the square of its length: 20,000 equal letters in one piece take 0.2 s, 200,000 some 20 s.
 */
const MAX_RUN = 256;

// Each looked at from its first character only: from every one of them, the time would grow with the length of short runs, too.
const LONG_RUNS = new RegExp(
  [String.raw`[\p{L}\p{M}]`, String.raw`[^\p{L}\p{M}\p{N}\s]`, String.raw`\s`]
    .map((kind) => `(?<!${kind})${kind}{${String(MAX_RUN + 1)},}`)
    .join('|'),
  'gu',
);

/** Words like `<|endoftext|>` in a text are text; by default the vocabulary would throw on them. */
const PLAIN_TEXT = { disallowedSpecial: new Set<string>() };

type Count = (text: string, options: typeof PLAIN_TEXT) => number;

/**
 * Makes an exact token counter for GPT models, a `weigh` or `countTokens` for budgets that must be met to the token. Needs the
 * optional peer `gpt-tokenizer`, whose vocabulary (about 1 MB compressed for o200k_base) is loaded on the first call. Name the `model`, or its `encoding`: the same text has
 * up to six times as many tokens in cl100k_base, the default, as in o200k_base.
 *
 * Any text may be counted, also a hostile one. Special tokens count as plain text. A run of more than 256 letters (or signs, or blanks) without a
 * break is counted in slices of 256, which may add a token for each cut.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when `encoding` is unknown, or both `encoding` and `model` are given; FlowError (the same code) when `gpt-tokenizer` is
 * not installed. Both as a rejection.
 * @example
 * ```ts
 * import { createGptTokenCounter } from 'sluice/tokenizers/gpt';
 *
 * const countTokens = await createGptTokenCounter({ model: 'text-embedding-3-small' });
 * countTokens('Four score and seven years ago'); // => 6
 * countTokens('<|endoftext|>'); // => 7
 * ```
 */
export async function createGptTokenCounter(options: GptTokenCounterOptions = {}): Promise<(text: string) => number> {
  check.onlyKnown('createGptTokenCounter', options, ['encoding', 'model']);
  const encoding = encodingOption('createGptTokenCounter', options);
  const count = await load(encoding);
  return (text) => countInSlices(text, count);
}

async function load(encoding: 'o200k_base' | 'cl100k_base'): Promise<Count> {
  try {
    const vocabulary =
      encoding === 'o200k_base' ? import('gpt-tokenizer/encoding/o200k_base') : import('gpt-tokenizer/encoding/cl100k_base');
    return (await vocabulary).countTokens;
  } catch (cause) {
    const problem = 'could not load the optional package `gpt-tokenizer`; install it beside sluice: npm install gpt-tokenizer';
    throw new FlowError('FLOW_CONFIG_INVALID', 'createGptTokenCounter', problem, cause);
  }
}

function countInSlices(text: string, count: Count): number {
  let tokens = 0;
  let from = 0;
  for (const { index, 0: run } of text.matchAll(LONG_RUNS)) {
    for (let cut = index + MAX_RUN; cut < index + run.length; cut += MAX_RUN) {
      const at = isLowSurrogate(text.charCodeAt(cut)) ? cut - 1 : cut;
      tokens += count(text.slice(from, at), PLAIN_TEXT);
      from = at;
    }
  }
  return tokens + count(text.slice(from), PLAIN_TEXT);
}

/** True in the middle of an emoji, which must not be cut in two. */
function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code < 0xe000;
}
