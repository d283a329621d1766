import { createHash } from 'node:crypto';

/** Longer names are hashed. */
const LONGEST_PART = 120;

/** Letters of a name that need no escape within braces. */
const SAFE_IN_TAG = /%3A|%2F|%40/g;

/** The keys of one store. All have its name in braces, so that a cluster keeps them together. */
export class StoreKeys {
  private readonly prefix: string;

  constructor(name: string) {
    this.prefix = `sluice:{${partOf(name).replace(SAFE_IN_TAG, decodeURIComponent)}}`;
  }

  /** Those of a scope: the clock of the store, the state of the scope, and what was granted in each part of its windows. */
  ofScope(scope: string): [string, string, string] {
    const name = partOf(scope);
    return [`${this.prefix}:clock`, `${this.prefix}:scope:${name}`, `${this.prefix}:parts:${name}`];
  }

  /** Those of a scope, and that of one owner in it. */
  ofOwner(scope: string, owner: string): [string, string, string, string] {
    return [...this.ofScope(scope), `${this.prefix}:owner:${partOf(scope)}:${partOf(owner)}`];
  }
}

/** The same for no two names, in letters that mean nothing to Redis, to access lists or in a terminal. */
function partOf(name: string): string {
  const escaped = encodeURIComponent(escapeText(name)).replace(/[*']/g, (letter) => (letter === '*' ? '%2A' : '%27'));
  return escaped.length <= LONGEST_PART ? escaped : `%sha256=${createHash('sha256').update(escaped).digest('hex')}`;
}

/** A text as JSON has it: also one with half a letter can be sent then, and comes back as it was. */
export function escapeText(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** @throws SyntaxError when it is not what `escapeText` returns. */
export function unescapeText(text: string): string {
  return JSON.parse(`"${text}"`) as string;
}
