import { evidenceOf } from '../../operators/build.js';
import type { ErrorClass } from '../../operators/index.js';
import { isFlowError } from '../../operators/index.js';

/** Codes of the platform, as Node and its `fetch` spell them. What a provider calls its errors is up to the provider, so it is no code. */
const PLATFORM_CODE = /^(?:E[A-Z]{3,20}(?:_[A-Z]{1,20})?|UND_ERR_[A-Z_]{1,40}|ERR_[A-Z0-9_]{1,40})$/;

/** The code of an answer that came and could not be read. */
export const PARSE_FAILED = 'PARSE_FAILED';

/** What went wrong, as a word from a closed set: ours, an HTTP status, a code of the platform, or else the class. */
export function errorCodeOf(error: unknown, errorClass: ErrorClass): string {
  for (const { error: link, status, words } of evidenceOf(error)) {
    if (isFlowError(link)) return link.code;
    if (words.includes('SyntaxError')) return PARSE_FAILED;
    if (status !== undefined) return `HTTP_${String(status)}`;
    const code = words.find((word) => PLATFORM_CODE.test(word));
    if (code !== undefined) return code;
  }
  return errorClass.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}
