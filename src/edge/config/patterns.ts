/** Texts of a certain form, and what that is in words. */
export const NAME = /^[A-Za-z_][A-Za-z0-9_-]*$/;
export const HTTP_URL = /^https?:\/\/[^\s/]/;
export const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export const PATTERN_WORDS: ReadonlyMap<string | undefined, string> = /* @__PURE__ */ new Map([
  [NAME.source, 'a name of letters, digits, `_` and `-` that does not start with a digit'],
  [HTTP_URL.source, 'an http(s) URL such as `https://host/v1`'],
  [VARIABLE_NAME.source, 'the name of an environment variable, such as `OPENAI_API_KEY`, and not the key itself'],
]);

/** Paths of requests, which are added to the address of an API. */
const OPERATION = /\/(chat\/completions|embeddings)\/?$/;

/** The address of an API without the path of a request at its end; undefined when it has none. */
export function withoutOperation(baseUrl: string): string | undefined {
  if (!URL.canParse(baseUrl)) return undefined;
  const { origin, pathname } = new URL(baseUrl);
  return OPERATION.test(pathname) ? `${origin}${pathname.replace(OPERATION, '')}` : undefined;
}
