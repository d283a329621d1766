/** A text, a number or a word of JSON, or one of its signs. */
const TOKEN =
  /(?:("(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|([{}[\],:]))/y;

/** Where JSON breaks off; undefined for valid JSON. The platform tells it of some faults only. */
export function jsonFaultAt(text: string): number | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch {
    return scan(text);
  }
}

/** Where the next token begins. */
function tokenAt(text: string, from: number): number {
  let at = from;
  while (at < text.length && '\t\n\r '.includes(text.charAt(at))) at += 1;
  return at;
}

function scan(text: string): number {
  /** Ends of the lists and mappings that are open. */
  const open: string[] = [];
  let next = 'value';
  let at = 0;
  // Ends: JSON without a fault does not come here.
  for (;;) {
    const start = tokenAt(text, at);
    TOKEN.lastIndex = start;
    const found = TOKEN.exec(text);
    if (!found) return start;
    const sign = found[3];
    const isText = found[1] !== undefined;
    const end = open.at(-1);
    if (sign !== undefined && sign === end && next.includes('end')) open.pop();
    else if ((sign === '{' || sign === '[') && next.includes('value')) open.push(sign === '{' ? '}' : ']');
    else if (!isExpected(sign, isText, next)) return start;
    next = after(sign, next, open.at(-1));
    at = TOKEN.lastIndex;
  }
}

function isExpected(sign: string | undefined, isText: boolean, next: string): boolean {
  if (sign === undefined) return next.includes('value') || (isText && next.includes('key'));
  return (sign === ',' && next.includes('comma')) || (sign === ':' && next === 'colon');
}

/** What may follow. */
function after(sign: string | undefined, before: string, end: string | undefined): string {
  if (sign === '{') return 'key or end';
  if (sign === '[') return 'value or end';
  if (sign === ':') return 'value';
  if (sign === ',') return end === '}' ? 'key' : 'value';
  if (before.includes('key') && sign === undefined) return 'colon';
  return end === undefined ? 'nothing' : 'comma or end';
}
