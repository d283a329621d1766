// Measures the token estimator against both real vocabularies, on texts that are installed anyway.
// Run: npx tsx bench/tokens.mjs
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { countTokens as cl100k } from 'gpt-tokenizer/encoding/cl100k_base';
import { countTokens as o200k } from 'gpt-tokenizer/encoding/o200k_base';
import { estimatorOf } from '../src/tokenizers/estimate.ts';

const CHUNK_CHARS = 1000;
const MAX_CHUNKS = 800;
const MAX_FILE_BYTES = 300_000;
const MARGIN = 1.15;
const modules = new URL('../node_modules/', import.meta.url).pathname;

/** Paths below a folder whose name matches, in a fixed order. */
function filesIn(folder, name) {
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return filesIn(path, name);
      return entry.isFile() && name.test(entry.name) && statSync(path).size < MAX_FILE_BYTES ? [path] : [];
    });
}

function chunksOf(text) {
  return Array.from({ length: Math.floor(text.length / CHUNK_CHARS) }, (_, i) => text.slice(i * CHUNK_CHARS, (i + 1) * CHUNK_CHARS));
}

/** At most so many, spread evenly over all. */
function thinned(list, most) {
  const step = Math.max(1, list.length / most);
  return Array.from({ length: Math.min(list.length, most) }, (_, i) => list[Math.floor(i * step)]);
}

function chunksOfFiles(name) {
  return thinned(
    thinned(filesIn(modules, name), 1000).flatMap((path) => chunksOf(readFileSync(path, 'utf8').slice(0, 20_000))),
    MAX_CHUNKS,
  );
}

/** The compiler's own messages, translated by people. */
function chunksOfMessages(language) {
  const file = join(modules, 'typescript/lib', language, 'diagnosticMessages.generated.json');
  return thinned(chunksOf(Object.values(JSON.parse(readFileSync(file, 'utf8'))).join('\n')), MAX_CHUNKS);
}

function randomText(alphabet) {
  let state = 1;
  const next = () => (state = (state * 48_271) % 2_147_483_647);
  return Array.from({ length: 100 }, () => Array.from({ length: CHUNK_CHARS }, () => alphabet[next() % alphabet.length]).join(''));
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const kinds = {
  'prose (READMEs)': chunksOfFiles(/^readme\.md$/i),
  TypeScript: chunksOfFiles(/(?<!\.d)\.[cm]?tsx?$/),
  'declarations (.d.ts)': chunksOfFiles(/\.d\.[cm]?ts$/),
  JavaScript: chunksOfFiles(/\.[cm]?js$/),
  JSON: chunksOfFiles(/\.json$/),
  ...Object.fromEntries(
    ['de', 'fr', 'es', 'pl', 'cs', 'tr', 'ru', 'zh-cn', 'zh-tw', 'ja', 'ko'].map((language) => [language, chunksOfMessages(language)]),
  ),
  'random letters': randomText(LETTERS),
  'random hex': randomText('0123456789abcdef'),
  'random base64': randomText(`${LETTERS}${LETTERS.toUpperCase()}0123456789+/`),
};

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
const percent = (ratio) => `${(100 * ratio).toFixed(1)} %`;

function nsPerChar(count, chunks) {
  const rounds = Array.from({ length: 5 }, () => {
    const started = performance.now();
    for (const chunk of chunks) count(chunk);
    return performance.now() - started;
  });
  return (
    (quantile(
      rounds.sort((a, b) => a - b),
      0.5,
    ) *
      1e6) /
    (chunks.length * CHUNK_CHARS)
  );
}

for (const [encoding, countTokens] of Object.entries({ cl100k_base: cl100k, o200k_base: o200k })) {
  const exact = (text) => countTokens(text, { disallowedSpecial: new Set() });
  const estimateTokens = estimatorOf(encoding, 1);
  console.log(`Node ${process.version}, ${cpus()[0].model}, chunks of ${CHUNK_CHARS} characters, against gpt-tokenizer ${encoding}`);
  console.log(
    `| text | chunks | chars/token | mean error | abs. error p50 | p95 | over budget with ${MARGIN} | chars/4 p50 | p95 | ns/char | exact ns/char |`,
  );
  console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |');
  for (const [kind, chunks] of Object.entries(kinds)) {
    const counts = chunks.map(exact);
    const errors = chunks.map((chunk, i) => estimateTokens(chunk) / counts[i] - 1);
    const sizes = errors.map(Math.abs).sort((a, b) => a - b);
    const naive = counts.map((tokens) => Math.abs(CHUNK_CHARS / 4 / tokens - 1)).sort((a, b) => a - b);
    const over = chunks.filter((chunk, i) => Math.ceil(estimateTokens(chunk) * MARGIN) < counts[i]).length;
    const row = [
      kind,
      chunks.length,
      ((chunks.length * CHUNK_CHARS) / counts.reduce((sum, tokens) => sum + tokens, 0)).toFixed(2),
      percent(errors.reduce((sum, error) => sum + error, 0) / errors.length),
      ...[0.5, 0.95].map((q) => percent(quantile(sizes, q))),
      percent(over / chunks.length),
      ...[0.5, 0.95].map((q) => percent(quantile(naive, q))),
      nsPerChar(estimateTokens, chunks).toFixed(1),
      nsPerChar(exact, chunks).toFixed(1),
    ];
    console.log(`| ${row.join(' | ')} |`);
  }
}
