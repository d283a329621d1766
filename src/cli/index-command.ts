import { Command } from 'commander';
import { CHUNK_DEFAULTS } from './chunks.js';
import { MAX_FILE_BYTES } from './documents.js';
import { CliError, EXIT, onDisk } from './exit.js';
import { type Host, pathOf } from './host.js';
import { IndexJob } from './index-job.js';
import type { IndexSummary } from './index-summary.js';
import { onInterrupt } from './interrupt.js';
import { addProviderOptions, DEFAULT_INDEX, type ProviderFlags, positiveNumber, providerFrom, wholeNumber } from './options.js';
import { refuseForeignFile, writeOwnFile } from './own-file.js';
import { progressLine, progressText, showProgress } from './progress.js';
import { summaryText } from './summary.js';
import { visible } from './visible.js';

interface IndexFlags extends ProviderFlags {
  readonly output: string;
  readonly filesFrom?: string;
  readonly maxFileBytes: number;
  readonly maxChunkTokens: number;
  readonly maxBatch: number;
  readonly maxBatchTokens?: number;
  readonly concurrency: number;
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly ask?: string;
  readonly strict: boolean;
  /** True for standard output, else a path. */
  readonly json?: string | true;
}

/** How every summary begins. */
const SUMMARY_MARK = '{\n  "exitCode": ';

/** Below this a chunk can hold little more than a heading. */
const LEAST_CHUNK_TOKENS = 16;

export function indexCommand(host: Host): Command {
  const command = new Command('index')
    .description('read documents, embed their passages and write an index that `sluice search` can search')
    .argument('[paths...]', 'files and folders; folders without node_modules and names that start with a dot')
    .option('-o, --output <file>', 'the index', DEFAULT_INDEX)
    .option('--files-from <list>', 'more paths, one per line, # comments; relative to the working folder');
  return addProviderOptions(command, host)
    .option('--max-chunk-tokens <n>', 'most estimated tokens in a passage', wholeNumber(LEAST_CHUNK_TOKENS), CHUNK_DEFAULTS.maxTokens)
    .option('--max-file-bytes <n>', 'larger files are skipped', wholeNumber(1), MAX_FILE_BYTES)
    .option('--max-batch <n>', 'most passages in one call', wholeNumber(1), 64)
    .option('--max-batch-tokens <n>', 'most estimated tokens in one call', wholeNumber(1))
    .option('--concurrency <n>', 'calls at a time', wholeNumber(1), 2)
    .option('--requests-per-minute <n>', 'limit of the provider', positiveNumber)
    .option('--tokens-per-minute <n>', 'limit of the provider', positiveNumber)
    .option('--ask <questions.json>', 'ask these questions meanwhile, and check at the end which document answers them')
    .option('--strict', 'exit with 1 when the provider refused a passage', false)
    .option('--json [file]', 'the summary as JSON, to a file or to standard output')
    .action((paths: string[], flags: IndexFlags) => run(paths, flags, host));
}

async function run(paths: string[], flags: IndexFlags, host: Host): Promise<void> {
  if (typeof flags.json === 'string') await checkSummaryPath(flags.json, flags.output, host);
  const signals = onInterrupt(host, () => {
    display.note('stopping: waiting for the calls under way (interrupt again to abort them)');
  });
  const job = new IndexJob(
    {
      paths,
      filesFrom: flags.filesFrom,
      cwd: host.cwd(),
      output: flags.output,
      maxFileBytes: flags.maxFileBytes,
      maxChunkTokens: flags.maxChunkTokens,
      ask: flags.ask,
      strict: flags.strict,
      provider: {
        ...providerFrom(flags, host.env),
        maxBatch: flags.maxBatch,
        maxBatchTokens: flags.maxBatchTokens,
        concurrency: flags.concurrency,
        requestsPerMinute: flags.requestsPerMinute ?? Infinity,
        tokensPerMinute: flags.tokensPerMinute ?? Infinity,
      },
    },
    signals,
  );
  const display = showProgress(host, { live: () => progressText(job.progress()), line: () => progressLine(job.progress()) });
  let summary: IndexSummary;
  try {
    summary = await job.run();
  } finally {
    display.stop();
    signals.dispose();
  }
  await report(summary, flags.json, host);
  host.exitCode = summary.exitCode;
}

/** Before anything is read or sent: at the end it would be too late to say that the summary has no place. */
async function checkSummaryPath(json: string, output: string, host: Host): Promise<void> {
  const index = pathOf(host, output);
  const summary = pathOf(host, json);
  if ([index, `${index}.journal`, `${index}.lock`].includes(summary))
    throw new CliError(EXIT.usage, `\`--json ${json}\` would overwrite the index or what belongs to it; give another file`);
  await refuseForeignFile(summary, json, SUMMARY_MARK, 'a summary');
}

/** Standard output stays pure JSON when it is asked for it. */
async function report(summary: IndexSummary, json: string | true | undefined, host: Host): Promise<void> {
  const text = visible(`${JSON.stringify(summary, undefined, 2)}\n`);
  (json === true ? host.stderr : host.stdout).write(`${summaryText(summary)}\n`);
  if (json === true) host.stdout.write(text);
  else if (json !== undefined) await onDisk(`write the summary \`${json}\``, () => writeOwnFile(pathOf(host, json), text));
}
