/**
 * What a terminal, or what shows text, acts upon without showing it: control characters (C0 but for tab and line feed, DEL, C1), overrides and isolates of
 * the direction of writing, line and paragraph separators.
 */
// eslint-disable-next-line no-control-regex -- they are what is looked for
const ACTED_UPON = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/**
 * A text whose control characters stand there as `\u001b`, which a terminal shows and does nothing about. JSON stays the same JSON: such characters
 * occur only within its strings.
 */
export function visible(text: string): string {
  return text.replaceAll(ACTED_UPON, escaped);
}

/** The same for a name within a line: also tabs and line feeds, with which it could make up lines of ours. */
export function visibleName(text: string): string {
  return visible(text).replaceAll(/[\t\n]/g, escaped);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
