import { variable } from '../edge/config/env.js';
import { type ConfigNotice, parseWithOrigins } from '../edge/config/parse.js';
import type { ConfigProblem } from '../edge/config/problems.js';
import type { Config, ConfigFile } from '../edge/config/schema.js';
import { CliError, EXIT } from './exit.js';
import { type Host, pathOf } from './host.js';
import { readTextFile } from './text-file.js';
import { visibleName } from './visible.js';

/** A configuration, and what variables have put where keys stand. */
export interface LoadedConfig {
  readonly value: Config;
  readonly secrets: readonly string[];
  /** What is right and does not do what its reader may expect. */
  readonly notices: readonly ConfigNotice[];
  /** What it says in its own spelling. */
  readonly file: ConfigFile;
}

export type ReadConfig = LoadedConfig | { readonly problems: readonly ConfigProblem[] };

const SECRET = /^model\.(baseUrl|headers|options)\b/;

/** What stands in a configuration, or what is wrong with it. @throws CliError (exit code 2) when it cannot be read */
export async function readConfig(path: string, host: Host): Promise<ReadConfig> {
  const text = await readTextFile(pathOf(host, path), `the configuration \`${path}\``);
  const { env } = host;
  const { parsed, origins, file = {} } = parseWithOrigins(text, { env, format: /\.json$/i.test(path) ? 'json' : 'yaml' });
  if ('problems' in parsed) return parsed;
  const names = [...origins].flatMap(([place, inIt]) => (SECRET.test(place) ? inIt : []));
  const { value, notices = [] } = parsed;
  return { value, file, notices, secrets: names.flatMap((name) => variable(env, name) ?? []) };
}

/** The same for a command that needs it to be right. @throws CliError (exit code 2) that names everything that is wrong */
export async function loadConfig(path: string, host: Host): Promise<LoadedConfig> {
  const parsed = await readConfig(path, host);
  if ('problems' in parsed)
    throw new CliError(EXIT.usage, [`\`${path}\`:`, ...parsed.problems.map(({ message }) => visibleName(message))].join('\n  '));
  return parsed;
}
