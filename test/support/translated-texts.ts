import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const modules = new URL('../../node_modules/', import.meta.url).pathname;
const root = new URL('../../', import.meta.url).pathname;

/** Texts that nothing was fitted to, by what they are: translations in packages that are here for other reasons, code, data. */
export type Texts = ReadonlyMap<string, readonly string[]>;

/** Pieces of `size` characters, at most `most` of them, spread evenly over the text. */
export function piecesOf(text: string, size: number, most: number): string[] {
  const pieces = Array.from({ length: Math.floor(text.length / size) }, (_, i) => text.slice(i * size, (i + 1) * size));
  const step = Math.max(1, pieces.length / most);
  return Array.from({ length: Math.min(most, pieces.length) }, (_, i) => pieces[Math.floor(i * step)] as string);
}

function read(...path: string[]): string {
  return readFileSync(join(...path), 'utf8');
}

function stringsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return Object.values(Object(value) as object).flatMap(stringsIn);
}

/** The messages of zod, by language. */
function zodMessages(): [string, string][] {
  const folder = join(modules, 'zod/v4/locales');
  const files = readdirSync(folder).filter((file) => /^[a-zA-Z-]+\.js$/.test(file) && file !== 'index.js');
  return files.map((file) => {
    const literals = Array.from(
      read(folder, file).matchAll(/"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g),
      (match) => match[1] ?? match[2] ?? '',
    );
    const messages = literals.map((text) => text.replaceAll(/\$\{[^}]*\}/g, 'x')).filter((text) => / |[^\0-\x7f]/.test(text));
    return [`zod ${file.slice(0, -3)}`, messages.join('\n')];
  });
}

/** The rules of axe, the diagnostics of TypeScript, the READMEs of Biome. */
function otherTranslations(): [string, string][] {
  const axe = readdirSync(join(modules, 'axe-core/locales')).filter((file) => /^[a-z].*\.json$/.test(file));
  const typescript = readdirSync(join(modules, 'typescript/lib')).filter((file) => !file.includes('.'));
  return [
    ...axe.map((file): [string, string] => [
      `axe ${file.slice(0, -5)}`,
      stringsIn(JSON.parse(read(modules, 'axe-core/locales', file)))
        .filter((text) => text.length > 12)
        .join('\n'),
    ]),
    ...typescript.map((language): [string, string] => [
      `TypeScript ${language}`,
      stringsIn(JSON.parse(read(modules, 'typescript/lib', language, 'diagnosticMessages.generated.json'))).join('\n'),
    ]),
    ...['es', 'pt-BR', 'kr', 'zh-CN', 'zh-TW', 'hi', 'ja', 'fr', 'ru'].map((language): [string, string] => [
      `Biome ${language}`,
      read(modules, '@biomejs/biome', `README.${language}.md`),
    ]),
  ];
}

/** Code and data of this repository, and made up at random, always the same. */
function codeAndData(): [string, string][] {
  let state = 7;
  const next = (): number => (state = (state * 48_271) % 2_147_483_647);
  const of = (alphabet: string | readonly string[], length: number): string =>
    Array.from({ length }, () => Array.from(alphabet)[next() % Array.from(alphabet).length]).join('');
  const letters = 'abcdefghijklmnopqrstuvwxyz';
  const digits = '0123456789';
  const rows = Array.from({ length: 400 }, () => ({ id: next() % 100_000, score: next() / 2_147_483_647, ok: next() % 2 === 0 }));
  return [
    [
      'code',
      ['create-batcher', 'bulkhead-map', 'merge-lanes', 'create-limiter'].map((name) => read(root, 'operators', `${name}.ts`)).join('\n'),
    ],
    ['Markdown', ['traps', 'shutdown', 'frontends', 'config'].map((name) => read(root, 'docs', `${name}.md`)).join('\n')],
    ['JSON', read(root, 'package-lock.json').slice(20_000, 60_000)],
    ['JSON of numbers', JSON.stringify(rows)],
    ['CSV', rows.map(({ id, score }) => `${String(id)},${score.toFixed(4)}`).join('\n')],
    ['digits', of(digits, 10_000)],
    ['numbers', rows.map(({ id }) => id).join(' ')],
    ['dates', rows.map(({ id }) => new Date(1.5e12 + id * 1e7).toISOString()).join('\n')],
    ['hex', of(`${digits}abcdef`, 10_000)],
    ['base64', of(`${letters}${letters.toUpperCase()}${digits}+/`, 10_000)],
    ['letters', of(letters, 10_000)],
    ['emoji', of('😀😃😄😅😂😊😍🥰😘👍👎👏🙌🤝🎉🔥✨💡🚀🐛🍎🍕🏠🚗🌍🌙', 5000)],
    [
      'emoji in prose',
      Array.from({ length: 400 }, () => `${of(['great', 'work', 'thanks', 'see you', 'done'], 1)} ${of('😀😂🎉🔥💡🚀🐛🍎', 1)}`).join(' '),
    ],
  ];
}

/** By script; what languages are written in it. */
export const SCRIPTS = {
  Latin: /[a-z]/iu,
  Cyrillic: /\p{Script=Cyrillic}/u,
  Greek: /\p{Script=Greek}/u,
  Hebrew: /\p{Script=Hebrew}/u,
  Arabic: /\p{Script=Arabic}/u,
  Armenian: /\p{Script=Armenian}/u,
  Georgian: /\p{Script=Georgian}/u,
  Devanagari: /\p{Script=Devanagari}/u,
  Bengali: /\p{Script=Bengali}/u,
  Gujarati: /\p{Script=Gujarati}/u,
  Kannada: /\p{Script=Kannada}/u,
  Tamil: /\p{Script=Tamil}/u,
  Thai: /\p{Script=Thai}/u,
  Khmer: /\p{Script=Khmer}/u,
  Hangul: /\p{Script=Hangul}/u,
  Kana: /[\p{Script=Hiragana}\p{Script=Katakana}]/u,
  Han: /\p{Script=Han}/u,
} as const;

/** All of them, in pieces. */
export function translatedTexts(size: number, most: number): Texts {
  const named = [...zodMessages(), ...otherTranslations(), ...codeAndData()];
  return new Map(named.map(([name, text]) => [name, piecesOf(text, size, most)]));
}
