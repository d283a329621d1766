// Plain English in every text that people read: sentences name their subject (no "whoever", no "nobody"), callers are "they", and no sentence has more than 40 words.
// Pages are read as Markdown without their code, sources by their comments; the two lists of words are searched in whole files, so that errors and test titles count.
// `node .ci/check-words.mjs <path>…` reads only these files and folders.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { number, project } from './bundle.mjs';

const MOST_WORDS_OF_A_SENTENCE = 40;
const RIDDLES = /\b(?:whoever|whomever|whosoever|(?:no|some|every|any)body|who asks|what is none)\b/gi;
const PERSONS = /\b(?:he|him|his|himself)\b/gi;

/** Texts of others, generated files and data. */
const LEFT_OUT = [
  'package-lock.json',
  'LICENSE',
  'docs/api/',
  'docs/config.schema.json',
  'docs/behaviour.md',
  'docs/sizes.md',
  'examples/semantic-search/corpus.txt',
  'examples/semantic-search/questions.json',
  'test/fixtures/',
  'marbles/diagrams/',
  '.ci/check-words.mjs',
];
/** Words that are right where they stand: file, words, reason. At most ten. */
const ALLOWED = [
  { file: 'examples/embedding-job/texts.ts', words: /^(?:he|his)$/, reason: 'a list of common words that texts are made of' },
  { file: 'test/pipelines/embedder-fill.test.ts', words: /^he$/, reason: 'the code of a language' },
];

const SOURCES = /\.(?:ts|tsx|mts|mjs|cjs|css)$/;
const PAGES = /\.md$/;
const TEXTS = /\.(?:ts|tsx|mts|mjs|cjs|css|md|html|json|ya?ml|svelte)$|\.ci\/run$/;

const paths = process.argv.slice(2);
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '--', ...paths], {
  cwd: project,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => TEXTS.test(file) && !LEFT_OUT.some((path) => file.startsWith(path)) && !/(?:^|\/)fixtures\//.test(file));
const used = new Set();
const faults = files.flatMap((file) => {
  const text = readFileSync(join(project, file), 'utf8');
  return [...riddles(file, text), ...longSentences(file, text)];
});
if (ALLOWED.length > 10) faults.push(`the list of allowed words has ${ALLOWED.length} lines, of at most 10`);
if (paths.length === 0)
  for (const row of ALLOWED) if (!used.has(row)) faults.push(`the list of allowed words: ${row.file} has no ${row.words} any more`);
for (const fault of faults) console.log(fault);
console.log(`${number(files.length)} files read, ${faults.length} ${faults.length === 1 ? 'fault' : 'faults'}`);
process.exitCode = faults.length === 0 ? 0 : 1;

function riddles(file, text) {
  const found = [];
  for (const [words, repair] of [
    [RIDDLES, 'name the subject (caller, subscriber, listener, user)'],
    [PERSONS, 'callers and users are "they"'],
  ])
    for (const match of text.matchAll(words)) {
      const allowed = ALLOWED.find((row) => row.file === file && row.words.test(match[0]));
      if (allowed) used.add(allowed);
      else found.push(`${file}:${lineOf(text, match.index)}: "${match[0]}": ${repair}`);
    }
  return found;
}

function longSentences(file, text) {
  const blocks = PAGES.test(file) ? pageBlocks(text) : SOURCES.test(file) && !file.endsWith('.css') ? comments(file, text) : [];
  return blocks.flatMap(({ line, text: block }) =>
    sentences(block)
      .map((sentence) => ({ sentence, words: wordsOf(sentence) }))
      .filter(({ words }) => words > MOST_WORDS_OF_A_SENTENCE)
      .map(
        ({ sentence, words }) =>
          `${file}:${line}: ${words} words in a sentence, of at most ${MOST_WORDS_OF_A_SENTENCE}: "${sentence.slice(0, 60)}…"`,
      ),
  );
}

/** Paragraphs, list items and cells of a page, without code, each with its first line. */
function pageBlocks(text) {
  const blocks = [];
  let block;
  let isCode = false;
  const end = () => {
    if (block) blocks.push(block);
    block = undefined;
  };
  text.split('\n').forEach((line, index) => {
    const isFence = /^\s*(?:```|~~~)/.test(line);
    if (isFence) isCode = !isCode;
    if (isFence || isCode || /^\s*(?:$|#|<|\|?\s*-{3})/.test(line)) return end();
    if (/^\s*\|/.test(line)) {
      end();
      for (const cell of line.split(/(?<!\\)\|/)) blocks.push({ line: index + 1, text: cell });
      return;
    }
    if (/^\s*(?:[-*+]|\d+\.)\s/.test(line)) end();
    block = { line: block?.line ?? index + 1, text: `${block?.text ?? ''} ${line.replace(/^\s*(?:[-*+>]|\d+\.)\s/, '')}` };
  });
  end();
  return blocks;
}

/** Comments of a source; lines of `//` that follow each other are one text. */
function comments(file, text) {
  const blocks = [];
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const seen = new Set();
  const take = (range) => {
    if (seen.has(range.pos)) return;
    seen.add(range.pos);
    const line = source.getLineAndCharacterOfPosition(range.pos).line + 1;
    const raw = text.slice(range.pos, range.end);
    const isLine = raw.startsWith('//');
    const last = blocks.at(-1);
    if (isLine && last?.isLine && last.end === line - 1) {
      last.text += ` ${raw.slice(2)}`;
      last.end = line;
      return;
    }
    const lines = isLine
      ? [raw.slice(2)]
      : raw
          .slice(2, -2)
          .split('\n')
          .map((part) => part.replace(/^\s*\*? ?/, ''));
    if (isLine) blocks.push({ line, end: line, isLine, text: lines[0] });
    else
      for (const part of pageBlocks(lines.map((part) => part.replace(/^@\w+/, '\n$&')).join('\n')))
        blocks.push({ line: line + part.line - 1, text: part.text });
  };
  const visit = (node) => {
    for (const range of ts.getLeadingCommentRanges(text, node.getFullStart()) ?? []) take(range);
    for (const range of ts.getTrailingCommentRanges(text, node.getEnd()) ?? []) take(range);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return blocks;
}

function sentences(block) {
  return block
    .replace(/`[^`]*`/g, 'code')
    .replace(/\]\([^)]*\)/g, ']')
    .split(/(?<=[.!?:;…][*_)"”]*)\s+(?=[^a-z])|(?<=[.!?;][*_)"”]*)\s+/);
}

function wordsOf(sentence) {
  return sentence.split(/\s+/).filter((word) => /\w/.test(word)).length;
}

function lineOf(text, index) {
  return text.slice(0, index).split('\n').length;
}
