import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { type Attack, attacksOn, textOf } from '../support/pattern-attacks.js';

const root = resolve(import.meta.dirname, '../..');

/** A pattern in the sources. */
interface Found {
  /** `file: text of the pattern`. */
  readonly name: string;
  /** Undefined of one that is put together when the module loads. */
  readonly pattern: RegExp | undefined;
}

/** Applied to text of ours alone: numbers we print, names in our own sources, results of a build. Why, beside each. */
const OWN_TEXT: Readonly<Record<string, string>> = {
  'src/cli/format.ts: /\\B(?=(\\d{3})+$)/g': 'a number, rounded',
  'examples/playground/engine/code.ts': 'sources of the playground',
  'examples/playground/build.ts': 'paths of modules',
  'examples/model-server/serve.mjs': 'flags of the command line',
  'marbles/run.ts': 'names in a specification',
  'marbles/host-watch.ts': 'lines of a stack',
};

/** Patterns that are put together, written as what they come to. */
const BUILT: Readonly<Record<string, RegExp>> = {
  'src/edge/config/env.ts': /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}|\$\{/g,
  'src/tokenizers/gpt.ts': /(?<![\p{L}\p{M}])[\p{L}\p{M}]{257,}|(?<![^\p{L}\p{M}\p{N}\s])[^\p{L}\p{M}\p{N}\s]{257,}|(?<!\s)\s{257,}/gu,
};

/** In small steps at first: of some patterns the time doubles with each character. */
const LENGTHS = [20, 24, 28, 32, 36, 40, 48, 56, 64, 80, 100, 130, 200, 400, 800, 1600, 3000, 10_000, 30_000];
const WHOLE = 1_000_000;
/** Of the attacks, those that took longest before are tried at full length. */
const MOST_WHOLE = 6;
/** Of the processor's time: a busy machine takes none of it. */
const MOST_MS = 50;
/** How many times longer a machine may take than the one on which {@link MOST_MS} holds. */
const SLOW_MACHINE = 8;
/** Taking in a match costs something by itself, and a text may be nothing but matches. */
const MATCH_MS = 0.0002;

describe('patterns over text of others', () => {
  const all = patternsIn(['src', 'operators', 'marbles', 'examples']);

  it('are all known: those put together are written out above', () => {
    const built = all.filter(({ pattern }) => pattern === undefined).map(({ name }) => fileOf(name));
    expect(built.sort()).toEqual(Object.keys(BUILT).sort());
    expect(all.length).toBeGreaterThan(100);
  });

  it('that are said to be over text of ours are there', () => {
    const names = new Set(all.flatMap(({ name }) => [name, fileOf(name)]));
    expect(Object.keys(OWN_TEXT).filter((name) => !names.has(name))).toEqual([]);
  });

  it('are written out as they are put together', async () => {
    const { VARIABLE } = await import('../../src/edge/config/env.js');
    expect(BUILT['src/edge/config/env.ts']?.source).toBe(`\\$\\$\\{|${VARIABLE}|\\$\\{`);
  });

  const foreign = all.filter(({ name }) => !(name in OWN_TEXT) && !(fileOf(name) in OWN_TEXT));
  it.each(foreign)('take a megabyte of the worst in less than 50 ms: $name', ({ name, pattern = BUILT[fileOf(name)] }) => {
    if (pattern === undefined) throw new Error('a pattern that is built is listed in BUILT');
    expect(worstOf(pattern)).toBeUndefined();
  });
});

it('a bad pattern is found, and the test does not hang with it', { timeout: 120_000 }, () => {
  for (const bad of [/```(?:json)?\s*\n([\s\S]*?)\n\s*```/i, /\/*$/, /^(a+)+$/, /~{3,}\s*(.*)$/])
    expect(worstOf(bad), String(bad)).toBeDefined();
});

interface Slow {
  readonly text: string;
  readonly length: number;
  readonly ms: number;
}

/** What takes too long, and how long; undefined when nothing does. Short texts first: what grows too fast is not tried at its full length. */
function worstOf(pattern: RegExp): Slow | undefined {
  const attacks = attacksOn(pattern);
  // Compiled, and warm.
  for (const attack of attacks) timeOf(pattern, textOf(attack, 20));
  const times = new Map<Attack, number>();
  for (const length of LENGTHS)
    for (const attack of attacks) {
      const slow = slowness(pattern, attack, length, times);
      if (slow) return slow;
    }
  const worst = [...times].sort(([, one], [, other]) => other - one).slice(0, MOST_WHOLE);
  for (const [attack] of worst) {
    const slow = slowness(pattern, attack, WHOLE, times);
    if (slow) return slow;
  }
  return undefined;
}

function slowness(pattern: RegExp, attack: Attack, length: number, times: Map<Attack, number>): Slow | undefined {
  const text = textOf(attack, length);
  let ms = timeOf(pattern, text);
  times.set(attack, ms);
  if (ms <= MOST_MS) return undefined;
  for (let again = 1; again < 3 && ms < 20 * MOST_MS; again++) ms = Math.min(ms, timeOf(pattern, text));
  const mostMs = MOST_MS + (pattern.global ? (text.match(pattern)?.length ?? 0) * MATCH_MS : 0);
  if (ms <= mostMs || (ms < SLOW_MACHINE * mostMs && isLinear(pattern, attack, length, ms))) return undefined;
  return { text: JSON.stringify(textOf(attack, 20)), length, ms };
}

/** A slow or busy machine takes longer for everything; only what is worse than linear takes more than twice as long for twice as much. */
function isLinear(pattern: RegExp, attack: Attack, length: number, ms: number): boolean {
  const half = textOf(attack, length / 2);
  return ms < 3 * Math.min(...Array.from({ length: 3 }, () => timeOf(pattern, half)));
}

function timeOf(pattern: RegExp, text: string): number {
  pattern.lastIndex = 0;
  const from = process.cpuUsage();
  // Each match, as a pattern with `g` is used, without what is made of them.
  if (pattern.global) text.replace(pattern, '');
  else pattern.test(text);
  return process.cpuUsage(from).user / 1000;
}

function fileOf(name: string): string {
  return name.slice(0, name.indexOf(': '));
}

function patternsIn(folders: readonly string[]): Found[] {
  const files = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name.replaceAll('\\', '/')}`),
  );
  const own = files.filter((file) => /\.(?:[mc]?[jt]s|[jt]sx)$/.test(file) && !file.includes('node_modules') && !/\.d\.m?ts$/.test(file));
  return own.sort().flatMap((file) => {
    const source = ts.createSourceFile(file, readFileSync(join(root, file), 'utf8'), ts.ScriptTarget.Latest, true);
    const found: Found[] = [];
    const visit = (node: ts.Node): void => {
      const name = `${file}: ${node.getText(source)}`;
      if (ts.isRegularExpressionLiteral(node)) found.push({ name, pattern: patternOf(node.text) });
      else if ((ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText(source) === 'RegExp')
        found.push({ name, pattern: undefined });
      ts.forEachChild(node, visit);
    };
    visit(source);
    return found;
  });
}

function patternOf(text: string): RegExp {
  const end = text.lastIndexOf('/');
  return new RegExp(text.slice(1, end), text.slice(end + 1));
}
