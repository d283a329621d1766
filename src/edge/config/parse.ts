import { check } from '../../../operators/build.js';
import { FlowConfigError } from '../../../operators/index.js';
import { crossChecks } from './cross-checks.js';
import { type Env, type Filled, fillIn } from './env.js';
import { showPath } from './finding.js';
import { VALUE_SCHEMA } from './json-schema.js';
import { normalised } from './levels.js';
import { noticesOf } from './notices.js';
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
 * Something that is right in a configuration and has no effect, or not the one that its reader may expect.
 * @beta
 */
export type ConfigNotice = Pick<ConfigProblem, 'path' | 'line' | 'column' | 'message'>;

/**
 * A configuration, or everything that is wrong with it, in the order of the text. `notices` is there when there are some.
 * @beta
 */
export type ParsedConfig =
  | { readonly value: Config; readonly notices?: readonly ConfigNotice[] }
  | { readonly problems: readonly ConfigProblem[] };

/** What reading a configuration comes to, for commands. */
export interface ReadSource {
  readonly parsed: ParsedConfig;
  /** Names of the variables that values were made of, by the path of what they stand in. */
  readonly origins: Filled['origins'];
  /** What the file says, in its own spelling; undefined where it is wrong. */
  readonly file?: ConfigFile;
}

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

export function parseWithOrigins(input: unknown, options: ParseConfigOptions): ReadSource {
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
  const others = [
    ...(error?.issues ?? []).flatMap((issue) => findingsOf(issue, filled, VALUE_SCHEMA)),
    ...crossChecks(filled.value, (path) => filled.origins.has(path)),
  ];
  const findings = [...filled.faults, ...others.filter(({ path }) => !missing.has(showPath(path)))];
  const { origins } = filled;
  if (success && findings.length === 0) {
    const file = data as ConfigFile;
    const value = normalised(file);
    const notices = noticesOf(file, value)
      .map((notice): ConfigNotice => {
        const { expected: _, got: __, ...told } = problemOf(notice, source.placeOf(notice.path));
        return told;
      })
      .sort(byPlace);
    return { parsed: { value, ...(notices.length > 0 && { notices }) }, origins, file };
  }
  return { parsed: inOrder(findings.map((finding) => problemOf(finding, source.placeOf(finding.path)))), origins };
}

function inOrder(problems: readonly ConfigProblem[]): ParsedConfig {
  // The first of several on one line.
  const seen = new Set<string>();
  const isNew = ({ path, line, got }: ConfigProblem): boolean => seen.size < seen.add(`${path} ${String(line)} ${got}`).size;
  return { problems: problems.filter(isNew).sort(byPlace) };
}

function byPlace(one: ConfigNotice, other: ConfigNotice): number {
  return (one.line ?? 0) - (other.line ?? 0) || (one.column ?? 0) - (other.column ?? 0);
}
