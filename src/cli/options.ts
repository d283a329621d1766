import { InvalidArgumentError } from 'commander';

/** The key comes from the environment only: an option would show it to everybody who can list processes. */
export function apiKeyFrom(env: NodeJS.ProcessEnv): string | undefined {
  return env['SLUICE_API_KEY'] ?? env['OPENAI_API_KEY'];
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
