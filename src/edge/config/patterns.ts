/** Texts of a certain form, and what that is in words. */
export const NAME = /^[A-Za-z_][A-Za-z0-9_-]*$/;
export const HTTP_URL = /^https?:\/\/[^\s/]/;

export const PATTERN_WORDS: ReadonlyMap<string | undefined, string> = /* @__PURE__ */ new Map([
  [NAME.source, 'a name of letters, digits, `_` and `-` that does not start with a digit'],
  [HTTP_URL.source, 'an http(s) URL such as `https://host/v1`'],
]);
