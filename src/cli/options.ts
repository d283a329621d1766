import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Host } from './host.js';
import type { ProviderOptions } from './provider.js';
import { shownOf } from './secrets.js';

export const DEFAULT_INDEX = '.sluice-index.jsonl';

/** What commander hands over for {@link addProviderOptions}. */
export interface ProviderFlags {
  readonly baseUrl: string;
  readonly model: string;
}

/** Where `sluice serve` listens. */
const LOCAL = 'http://127.0.0.1:8787/v1';

export function addProviderOptions(command: Command, { env }: Host): Command {
  const baseUrl = new Option('--base-url <url>', 'OpenAI-compatible API, up to and with its version (env SLUICE_BASE_URL)');
  return command
    .addOption(
      env['SLUICE_BASE_URL'] === undefined ? baseUrl.default(LOCAL) : baseUrl.default(env['SLUICE_BASE_URL'], 'that of the environment'),
    )
    .option('--model <name>', 'embedding model', 'all-MiniLM-L6-v2');
}

/** The key comes from the environment only: an option would show it to everybody who can list processes. */
export function apiKeyFrom(env: NodeJS.ProcessEnv): string | undefined {
  return env['SLUICE_API_KEY'] ?? env['OPENAI_API_KEY'];
}

/** Who is asked, by the flags and the environment. */
export function providerFrom(
  { baseUrl, model }: ProviderFlags,
  env: NodeJS.ProcessEnv,
): Pick<ProviderOptions, 'baseUrl' | 'model' | 'apiKey' | 'shown'> {
  const sent = { baseUrl, apiKey: apiKeyFrom(env) };
  return { ...sent, model, shown: shownOf(sent) };
}

/** One text at a time, without limits: what a search needs. */
export function singleCall(flags: ProviderFlags, env: NodeJS.ProcessEnv): ProviderOptions {
  return {
    ...providerFrom(flags, env),
    maxBatch: 1,
    maxBatchTokens: undefined,
    concurrency: 1,
    requestsPerMinute: Infinity,
    tokensPerMinute: Infinity,
  };
}

/** A parser for a whole number of at least `least`, and at most `most` where that is given. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${String(least)}` : `from ${String(least)} to ${String(most)}`;
  return (text) => {
    const value = Number(text);
    if (text.trim() === '' || !Number.isSafeInteger(value) || value < least || value > most)
      throw new InvalidArgumentError(`Expected a whole number ${range}.`);
    return value;
  };
}

/** Where a server may listen; 0 is a free one. */
export const port = wholeNumber(0, 65_535);

export function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value <= 0) throw new InvalidArgumentError('Expected a number above 0.');
  return value;
}

/** A parser for a share from 0 to 1. */
export function share(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !(value >= 0 && value <= 1)) throw new InvalidArgumentError('Expected a number from 0 to 1.');
  return value;
}
