import type * as z from 'zod';
import type { Filled } from './env.js';
import { type Finding, type Path, showPath } from './finding.js';
import { nearest } from './nearest.js';
import { NAME, PATTERN_WORDS } from './patterns.js';
import { at, homesOf, keysOf, type SchemaNode, wordsFor } from './schema-node.js';
import type { Place } from './source.js';

/** One thing that is wrong in a configuration. It says what kind of value is there, never the value: it could be a key. */
export interface ConfigProblem {
  /** `stages[1].concurrency`; empty for the whole. */
  readonly path: string;
  /** Where it is in the text, from 1; of a key that is missing, what it is missing in. Undefined when there was no text. */
  readonly line?: number;
  readonly column?: number;
  readonly expected: string;
  readonly got: string;
  /** All of it in a sentence. */
  readonly message: string;
}

export function problemOf({ path, expected, got }: Finding, place: Place | undefined): ConfigProblem {
  const shown = showPath(path);
  const where = [shown === '' ? '' : `\`${shown}\``, place ? `line ${String(place.line)}` : ''].filter((part) => part !== '');
  return { path: shown, ...place, expected, got, message: `${where.join(', ') || 'configuration'}: expected ${expected}, got ${got}` };
}

/** What zod found, in words that name everything a value has to be. */
export function findingsOf(issue: z.core.$ZodIssue, { value, origins }: Filled, schema: SchemaNode): Finding[] {
  return read(issue, []);

  function read(found: z.core.$ZodIssue, within: Path): Finding[] {
    const path = [...within, ...(found.path as Path)];
    if (found.code === 'unrecognized_keys') return found.keys.map((key) => unknownKey([...path, key], schema));
    if (found.code === 'invalid_union') {
      // One of the shapes has been tried for: what is wrong with that says more than all that it might have been.
      const near = found.errors.find((issues) => issues.every((one) => one.path.length > 0 || one.code === 'unrecognized_keys'));
      if (near && typeof valueAt(value, path) === 'object') return near.flatMap((one) => read(one, path));
    }
    // Records have keys of one form only.
    if (found.code === 'invalid_key') return [{ path, expected: PATTERN_WORDS.get(NAME.source) ?? '', got: 'another key' }];
    const given = valueAt(value, path);
    const node = at(schema, path);
    const meant = typeof given === 'string' ? nearest(given, (node?.enum ?? []).map(String)) : undefined;
    const hint = meant === undefined ? '' : ` (did you mean \`${meant}\`?)`;
    return [{ path, expected: `${wordsFor(node)}${hint}`, got: kindOf(given, origins.get(showPath(path))) }];
  }
}

/** Keys of designs that people come from, and of habit; what to do in their place. */
const REFUSED: ReadonlyMap<string, string> = /* @__PURE__ */ new Map([
  ['concurrency.request_level.connection_pool', 'no such key: the runtime keeps its connections itself, and nothing would read this'],
  ['model.apiKey', 'no key in a file: name the variable that holds it, `apiKeyEnv: OPENAI_API_KEY`'],
  ['apiKey', 'no key in a file: name the variable that holds it, `model: { apiKeyEnv: OPENAI_API_KEY }`'],
]);

function unknownKey(path: Path, schema: SchemaNode): Finding {
  const key = String(path.at(-1));
  const sentence = REFUSED.get(showPath(path));
  if (sentence !== undefined) return { path, expected: sentence, got: 'one' };
  const known = keysOf(at(schema, path.slice(0, -1)));
  const meant = nearest(key, known);
  const homes = homesOf(schema, key).filter((home) => !home.startsWith('concurrency.'));
  const hint = meant === undefined ? `known: ${known.join(', ')}` : `did you mean \`${meant}\`?`;
  const home = meant === undefined && homes[0] !== undefined ? `it belongs to \`${homes[0]}\`; ` : '';
  return { path, expected: `a known key (${home}${hint})`, got: 'one that is not' };
}

/** The kind of a value, and numbers; texts and what comes out of variables may be secret. */
export function kindOf(value: unknown, variables: readonly string[] = []): string {
  if (variables.length > 0) return `what ${variables.map((name) => `\`${name}\``).join(' and ')} holds`;
  if (value === undefined || value === null) return 'nothing';
  if (typeof value === 'number' || typeof value === 'boolean') return `\`${String(value)}\``;
  if (typeof value === 'string') return value === '' ? 'an empty text' : 'a text';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  return typeof value === 'object' ? 'a mapping' : `a ${typeof value}`;
}

export function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((within, step) => {
    const isPart = typeof within === 'object' && within !== null && Object.hasOwn(within, step);
    return isPart ? (within as Readonly<Record<string | number, unknown>>)[step] : undefined;
  }, value);
}
