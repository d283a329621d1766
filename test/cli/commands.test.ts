import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildCli, runHere } from '../support/cli.js';

describe('the command line', () => {
  it.each<readonly [string, readonly string[], RegExp]>([
    ['an unknown option', ['run', 'run.yaml', '--bogus'], /unknown option '--bogus'/],
    ['an unknown command', ['bogus'], /unknown command 'bogus'/],
    ['a whole number out of range', ['run', 'run.yaml', '--limit', '-1'], /Expected a whole number of at least \d/],
    ['an amount out of range', ['run', 'run.yaml', '--max-usd', '-1'], /Expected a number above 0/],
  ])('answers 2 to %s', async (_name, args, message) => {
    const { code, stderr } = await runHere(args);
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
  });

  it('explains itself', async () => {
    const help = await runHere(['--help']);
    expect(help.code).toBe(0);
    expect(help.stdout.match(/^ {2}[a-z]+(?= )/gm)?.map((name) => name.trim())).toEqual(['run', 'inspect', 'config', 'help']);
    for (const word of ['Exit codes:', '130']) expect(help.stdout).toContain(word);
  });

  it('says its version', async () => {
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as { version: string };
    expect(await runHere(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n` });
  });

  it('runs as a process', async () => {
    const cli = await buildCli();
    const manifest = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as { version: string };
    expect(await cli.start(['--version']).ended).toMatchObject({ code: 0, stdout: `${manifest.version}\n` });
  });
});
