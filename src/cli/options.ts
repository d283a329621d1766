import { type Command, InvalidArgumentError } from 'commander';
import type { Host } from './host.js';
import type { ProviderOptions } from './provider.js';

export const DEFAULT_INDEX = '.sluice-index.jsonl';

/** What commander hands over for {@link addProviderOptions}. */
export interface ProviderFlags {
  readonly baseUrl: string;
  readonly model: string;
}

export function addProviderOptions(command: Command, { env }: Host): Command {
  return command
    .option('--base-url <url>', 'OpenAI-compatible API, up to and with its version (env SLUICE_BASE_URL)', defaultBaseUrl(env))
    .option('--model <name>', 'embedding model', 'all-MiniLM-L6-v2');
}

function defaultBaseUrl(env: NodeJS.ProcessEnv): string {
  return env['SLUICE_BASE_URL'] ?? 'http://127.0.0.1:8787/v1';
}

/** The key comes from the environment only: an option would show it to everybody who can list processes. */
export function apiKeyFrom(env: NodeJS.ProcessEnv): string | undefined {
  return env['SLUICE_API_KEY'] ?? env['OPENAI_API_KEY'];
}

/** One text at a time, without limits: what a search needs. */
export function singleCall({ baseUrl, model }: ProviderFlags, env: NodeJS.ProcessEnv): ProviderOptions {
  return {
    baseUrl,
    model,
    apiKey: apiKeyFrom(env),
    maxBatch: 1,
    maxBatchTokens: undefined,
    concurrency: 1,
    requestsPerMinute: Infinity,
    tokensPerMinute: Infinity,
  };
}

/** A parser for a whole number of at least `least`. */
export function wholeNumber(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() === '' || !Number.isSafeInteger(value) || value < least) {
      throw new InvalidArgumentError(`Expected a whole number of at least ${String(least)}.`);
    }
    return value;
  };
}

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
