import { readFile } from 'node:fs/promises';
import { type ParsedConfig, parseConfig } from '../edge/config/parse.js';
import type { Config } from '../edge/config/schema.js';
import { CliError, EXIT, errorCode } from './exit.js';
import { type Host, pathOf } from './host.js';

/** What stands in a configuration, or what is wrong with it. @throws CliError (exit code 2) when it cannot be read */
export async function readConfig(path: string, host: Host): Promise<ParsedConfig> {
  let text: string;
  try {
    text = await readFile(pathOf(host, path), 'utf8');
  } catch (error) {
    const why = errorCode(error) === 'ENOENT' ? 'there is no such file' : (errorCode(error) ?? 'it cannot be read');
    throw new CliError(EXIT.usage, `cannot read the configuration \`${path}\`: ${why}`, error);
  }
  return parseConfig(text, { env: host.env, format: /\.json$/i.test(path) ? 'json' : 'yaml' });
}

/** The same for a command that needs it to be right. @throws CliError (exit code 2) that names everything that is wrong */
export async function loadConfig(path: string, host: Host): Promise<Config> {
  const parsed = await readConfig(path, host);
  if ('problems' in parsed) throw new CliError(EXIT.usage, [`\`${path}\`:`, ...parsed.problems.map(({ message }) => message)].join('\n  '));
  return parsed.value;
}
