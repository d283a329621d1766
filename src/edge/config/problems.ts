import type * as z from 'zod';
import { check } from '../../../operators/build.js';
import type { Filled } from './env.js';
import { type Finding, type Path, showPath, type Told, told } from './finding.js';
import { NAME, PATTERN_WORDS } from './patterns.js';
import { at, homesOf, keysOf, type SchemaNode, wordsFor } from './schema-node.js';
import type { Place } from './source.js';

/**
 * One thing that is wrong in a configuration. It says what kind of value is there, never the value: it could be a key.
 * @beta
 */
export interface ConfigProblem {
  /** `stages[1].concurrency`; empty for the whole. */
  readonly path: string;
  /** Where it is in the text, from 1; of a key that is missing, what it is missing in. Undefined when there was no text. */
  readonly line?: number;
  readonly column?: number;
  /** What the value has to be; where that is not the problem, how to repair it. */
  readonly expected: string;
  /** What kind of value is there; where that is not the problem, the problem. */
  readonly got: string;
  /** All of it in one line: place, problem, repair. */
  readonly message: string;
}

export function problemOf({ path, expected, got, isSentence = false }: Finding, place: Place | undefined): ConfigProblem {
  const shown = showPath(path);
  const line = place ? [`line ${String(place.line)}`] : [];
  const where = shown === '' ? [...line, ...(place ? [`column ${String(place.column)}`] : [])] : [`\`${shown}\``, ...line];
  const sentence = isSentence ? `${got}. ${expected}` : `expected ${expected}, got ${got}`;
  return { path: shown, ...place, expected, got, message: `${where.join(', ') || 'configuration'}: ${sentence}` };
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
    const meant = typeof given === 'string' ? check.nearest(given, (node?.enum ?? []).map(String)) : undefined;
    if (meant !== undefined) return [{ path, ...told('unknown value', `Did you mean \`${meant}\`?`) }];
    return [{ path, expected: wordsFor(node), got: kindOf(given, origins.get(showPath(path))) }];
  }
}

const NO_SECRETS = 'API keys do not belong in the file';

/** Keys of other designs, and of habit; what to do in their place. */
const REFUSED: ReadonlyMap<string, Told> = /* @__PURE__ */ new Map([
  ['model.apiKey', told(NO_SECRETS, 'Name the environment variable that holds it: `apiKeyEnv: OPENAI_API_KEY`.')],
  ['apiKey', told(NO_SECRETS, 'Name the environment variable that holds it: `model: { apiKeyEnv: OPENAI_API_KEY }`.')],
]);

function unknownKey(path: Path, schema: SchemaNode): Finding {
  const key = String(path.at(-1));
  const refusal = REFUSED.get(showPath(path));
  if (refusal !== undefined) return { path, ...refusal };
  const known = keysOf(at(schema, path.slice(0, -1)));
  const meant = check.nearest(key, known);
  const homes = homesOf(schema, key).filter((home) => !home.startsWith('concurrency.'));
  const isElsewhere = homes[0] === undefined ? `Known keys: ${known.join(', ')}.` : `It belongs to \`${homes[0]}\`.`;
  return { path, ...told(`unknown key \`${key}\``, meant === undefined ? isElsewhere : `Did you mean \`${meant}\`?`) };
}

/** The kind of a value, and numbers; texts and what comes out of variables may be secret. */
export function kindOf(value: unknown, variables: readonly string[] = []): string {
  if (variables.length > 0) return `the value of ${variables.map((name) => `\`${name}\``).join(' and ')}`;
  if (value === undefined || value === null) return 'nothing';
  if (typeof value === 'number' || typeof value === 'boolean') return `\`${String(value)}\``;
  if (typeof value === 'string') return value === '' ? 'an empty text' : Number.isFinite(Number(value)) ? 'a number in quotes' : 'a text';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  return typeof value === 'object' ? 'a mapping' : `a ${typeof value}`;
}

export function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((within, step) => {
    const isPart = typeof within === 'object' && within !== null && Object.hasOwn(within, step);
    return isPart ? (within as Readonly<Record<string | number, unknown>>)[step] : undefined;
  }, value);
}
