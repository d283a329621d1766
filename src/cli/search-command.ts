import { Command } from 'commander';
import { CliError, EXIT } from './exit.js';
import { type Host, pathOf } from './host.js';
import { readIndex } from './index-file.js';
import { addProviderOptions, type ProviderFlags, singleCall, wholeNumber } from './options.js';
import { explainFailure, openEmbedder } from './provider.js';
import { type Hit, searchIndex } from './search-index.js';
import { visibleName } from './visible.js';

interface SearchFlags extends ProviderFlags {
  readonly top: number;
  readonly json: boolean;
}

export function searchCommand(host: Host): Command {
  const command = new Command('search')
    .description('print the passages of an index that are closest to a question')
    .argument('<index>', 'an index written by `sluice index`')
    .argument('<question>', 'in plain words');
  return addProviderOptions(command, host)
    .option('--top <n>', 'passages to print', wholeNumber(1), 5)
    .option('--json', 'print them as JSON', false)
    .action((path: string, question: string, flags: SearchFlags) => run(path, question, flags, host));
}

async function run(path: string, question: string, flags: SearchFlags, host: Host): Promise<void> {
  if (question.trim() === '') throw new CliError(EXIT.usage, 'expected a question, got an empty text');
  const index = await readIndex(pathOf(host, path), path);
  if (index.model !== flags.model) {
    throw new CliError(
      EXIT.usage,
      `index \`${path}\` was made with the model \`${index.model}\`; search it with \`--model ${index.model}\``,
    );
  }
  const vector = await embed(question, flags, host);
  if (index.entries.length > 0 && vector.length !== index.dimensions) {
    const lengths = `${String(vector.length)} numbers, those of the index ${String(index.dimensions)}`;
    throw new CliError(EXIT.provider, `the vectors of the model \`${flags.model}\` now have ${lengths}; run \`sluice index\` again`);
  }
  const hits = searchIndex(index.entries, vector, flags.top);
  host.stdout.write(flags.json ? `${JSON.stringify(hits.map(plain), undefined, 2)}\n` : hits.map(hitText).join(''));
}

async function embed(question: string, flags: ProviderFlags, { env }: Host): Promise<Float32Array> {
  const provider = singleCall(flags, env);
  const embedder = openEmbedder(provider, () => undefined);
  try {
    return await embedder.embedAsync(question, { lane: 'P0' });
  } catch (error) {
    const failure = explainFailure(error, provider);
    throw failure.kind === 'stop' ? failure.error : new CliError(EXIT.provider, `no vector for the question: ${failure.reason}`, error);
  } finally {
    embedder.close();
  }
}

function plain({ entry, score }: Hit): object {
  const { file, startLine, endLine, text } = entry;
  return { file, startLine, endLine, score, text };
}

/** Enough lines to recognise a passage by. */
const PREVIEW_LINES = 6;

export function hitText({ entry, score }: Hit): string {
  const lines = entry.text.split('\n');
  const preview = lines.slice(0, PREVIEW_LINES).map((line) => `  ${line}`.trimEnd());
  if (lines.length > PREVIEW_LINES) preview.push(`  … ${String(lines.length - PREVIEW_LINES)} more lines`);
  return `${score.toFixed(3)}  ${visibleName(entry.file)}:${String(entry.startLine)}-${String(entry.endLine)}\n${preview.join('\n')}\n\n`;
}
