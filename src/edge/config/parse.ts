import { check } from '../../../operators/build.js';
import { FlowConfigError } from '../../../operators/index.js';
import { crossChecks } from './cross-checks.js';
import { type Env, type Filled, fillIn } from './env.js';
import { showPath } from './finding.js';
import { VALUE_SCHEMA } from './json-schema.js';
import { normalised } from './levels.js';
import { type ConfigProblem, findingsOf, kindOf, problemOf } from './problems.js';
import { type Config, type ConfigFile, configSchema } from './schema.js';
import { plainSource, readText } from './source.js';

/** @beta */
export interface ParseConfigOptions {
  /** Variables for `${NAME}`: `process.env`. @defaultValue none: one that is named is an error */
  readonly env?: Env;
  /** What a text is. JSON is read as YAML, too. @defaultValue 'yaml' */
  readonly format?: 'yaml' | 'json';
}

/**
 * A configuration, or everything that is wrong with it, in the order of the text.
 * @beta
 */
export type ParsedConfig = { readonly value: Config } | { readonly problems: readonly ConfigProblem[] };

/**
 * Reads a configuration: YAML or JSON, or what is read already. Variables (`${NAME}`, `${NAME:-default}`) are filled in everywhere but in prompts.
 * Whatever the input, it never throws: everything that is wrong comes back at once, each with its path, its line, the problem and the repair. No
 * text and nothing out of a variable is ever quoted.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when an option is unknown, or `format` is none.
 * @example
 * ```ts
 * import { parseConfig } from 'sluice/edge';
 *
 * const text = 'limits:\n  requestsPerSecond: 5\n  concurrency: ${CALLS:-10}\n';
 * parseConfig(text); // => { value: { limits: { requestsPerMinute: 300, concurrency: 10 } } }
 * const wrong = parseConfig('limits:\n  concurency: 0\n');
 * 'problems' in wrong && wrong.problems[0]?.message; // => '`limits.concurency`, line 2: unknown key `concurency`. Did you mean `concurrency`?'
 * ```
 */
export function parseConfig(input: unknown, options: ParseConfigOptions = {}): ParsedConfig {
  return parseWithOrigins(input, options).parsed;
}

/** What came of it, and the names of the variables that it was made of, by the path of what they stand in. */
export function parseWithOrigins(
  input: unknown,
  options: ParseConfigOptions,
): { readonly parsed: ParsedConfig; readonly origins: Filled['origins'] } {
  check.onlyKnown('parseConfig', options, ['env', 'format']);
  const { env = {}, format = 'yaml' } = options;
  check.oneOf('yaml', 'json')('parseConfig', 'format', format);
  if (typeof env !== 'object' || (env as unknown) === null)
    throw new FlowConfigError('parseConfig', 'env', 'an object', undefined, kindOf(env));
  const source = typeof input === 'string' ? readText(input, format) : plainSource(input);
  if (source.faults.length > 0)
    return {
      parsed: inOrder(source.faults.map(({ place, ...fault }) => problemOf({ path: [], ...fault }, place))),
      origins: new Map(),
    };
  const filled = fillIn(source.value, VALUE_SCHEMA, env);
  const { success, data, error } = configSchema.safeParse(filled.value);
  // What is wrong with the place of a variable that is not there says nothing more.
  const missing = new Set(filled.faults.map(({ path }) => showPath(path)));
  const others = [...(error?.issues ?? []).flatMap((issue) => findingsOf(issue, filled, VALUE_SCHEMA)), ...crossChecks(filled.value)];
  const findings = [...filled.faults, ...others.filter(({ path }) => !missing.has(showPath(path)))];
  const { origins } = filled;
  if (success && findings.length === 0) return { parsed: { value: normalised(data as ConfigFile) }, origins };
  return { parsed: inOrder(findings.map((finding) => problemOf(finding, source.placeOf(finding.path)))), origins };
}

function inOrder(problems: readonly ConfigProblem[]): ParsedConfig {
  // The first of several on one line.
  const seen = new Set<string>();
  const isNew = ({ path, line, got }: ConfigProblem): boolean => seen.size < seen.add(`${path} ${String(line)} ${got}`).size;
  return { problems: problems.filter(isNew).sort(byPlace) };
}

function byPlace(one: ConfigProblem, other: ConfigProblem): number {
  return (one.line ?? 0) - (other.line ?? 0) || (one.column ?? 0) - (other.column ?? 0);
}
