import { check } from '../../operators/build.js';

/** A vocabulary of OpenAI: cl100k_base of GPT-3.5, GPT-4 and all embedding models, o200k_base of GPT-4o and what came after it. */
export type TokenEncoding = 'cl100k_base' | 'o200k_base';

/** Where nothing says which it is: it has more tokens for nearly every text, so that a limit is kept. */
export const DEFAULT_ENCODING: TokenEncoding = 'cl100k_base';

/** With what may stand before a name: a vendor (`openai/gpt-4o`), a fine-tuning (`ft:gpt-4o:…`). */
const O200K =
  /(?:^|[/:.])(?:(?:chatgpt|chat|codex|computer-use|daybreak)-|gpt-(?:4o|4\.\d|[5-9]|[1-9]\d|oss|realtime|audio|image)|o[1-9](?![a-z0-9]))/i;

/**
 * The encoding of a model by its name. Models of other vendors have vocabularies of their own; they, and names that say nothing, are counted
 * as cl100k_base.
 */
export function encodingOf(model: unknown): TokenEncoding {
  // `gpt-35-turbo` is Azure's spelling of 3.5.
  return typeof model === 'string' && O200K.test(model) && !/gpt-3\.?5/i.test(model) ? 'o200k_base' : DEFAULT_ENCODING;
}

/** Which encoding the options choose. @throws FlowConfigError */
export function encodingOption(
  operator: string,
  { encoding, model }: { readonly encoding?: TokenEncoding; readonly model?: string },
): TokenEncoding {
  check.optional<string>(check.nonEmpty)(operator, 'model', model);
  if (encoding === undefined) return encodingOf(model);
  check.excludes(operator, 'model', model, '`encoding`');
  return check.oneOf('cl100k_base', 'o200k_base')(operator, 'encoding', encoding);
}
