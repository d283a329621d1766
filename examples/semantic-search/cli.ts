// Indexes documents and searches them by meaning. Run: npx tsx examples/semantic-search/cli.ts --help
import { stripVTControlCharacters } from 'node:util';
import { Command } from 'commander';
import { createLogUpdate } from 'log-update';
import { Asker, readQuestions } from './asker.js';
import { readCorpus, readList } from './documents.js';
import { openEmbedder, PASSAGES, type ProviderOptions, QUESTIONS, reasonOf } from './embedder.js';
import { indexDocuments } from './index-documents.js';
import { readIndex } from './index-file.js';
import { hitText, progressText, reportText } from './report.js';
import { search } from './search.js';

const LOCAL_SERVER = 'http://127.0.0.1:8787/v1';
const MODEL = 'all-MiniLM-L6-v2';
const INTERRUPTED = 130;

const program = new Command('semantic-search').description('Index documents and search them by meaning.');

interface IndexFlags extends ProviderOptions {
  readonly output: string;
  readonly filesFrom?: string;
  readonly ask?: string;
}

program
  .command('index')
  .description('embed the passages of documents and write an index')
  .argument('[paths...]', 'files and folders')
  .option('-o, --output <file>', 'the index', 'index.jsonl')
  .option('--files-from <list>', 'more paths, one per line')
  .option('--ask <questions.json>', 'ask these questions meanwhile: a list of { question, expected }')
  .option('--base-url <url>', 'OpenAI-compatible API', LOCAL_SERVER)
  .option('--model <name>', 'embedding model', MODEL)
  .option('--max-batch <n>', 'most passages in one call', Number, 64)
  .option('--concurrency <n>', 'calls at a time', Number, 2)
  .option('--requests-per-minute <n>', 'limit of the provider', Number, Infinity)
  .option('--tokens-per-minute <n>', 'limit of the provider', Number, Infinity)
  .action(async (paths: string[], { output, filesFrom, ask, ...provider }: IndexFlags) => {
    const startedAt = performance.now();
    const questions = ask === undefined ? [] : await readQuestions(ask);
    const corpus = await readCorpus([...paths, ...(filesFrom === undefined ? [] : await readList(filesFrom))]);
    let passageCalls = 0;
    const embedder = openEmbedder(provider, (event) => {
      if (event.type === 'attemptEnded' && event.lane === PASSAGES) passageCalls++;
    });
    const asker = new Asker(embedder, questions);
    const stop = new AbortController();
    // The second interrupt ends the process.
    process.once('SIGINT', () => {
      console.error('stopping: waiting for the texts on their way; interrupt again to end at once');
      stop.abort();
    });
    let [done, total] = [0, corpus.passages.length];
    const display = showProgress(() => progressText(done, total, embedder.snapshot()));
    try {
      const onProgress = (settled: number, texts: number): void => void ([done, total] = [settled, texts]);
      const { model } = provider;
      const result = await indexDocuments({ corpus, output, model, embedder, asker, stop: stop.signal, onProgress });
      display.end();
      const flow = embedder.snapshot();
      print(reportText({ corpus, result, asker, questions, flow, passageCalls, durationMs: performance.now() - startedAt }));
      if (stop.signal.aborted) process.exitCode = INTERRUPTED;
      print(stop.signal.aborted ? 'interrupted: run the same command again to continue' : `wrote ${output}`);
    } finally {
      display.end();
      embedder.close();
    }
  });

program
  .command('search')
  .description('print the passages of an index that are closest to a question')
  .argument('<index>')
  .argument('<question>')
  .option('--base-url <url>', 'OpenAI-compatible API', LOCAL_SERVER)
  .option('--top <n>', 'passages to print', Number, 5)
  .action(async (path: string, question: string, { baseUrl, top }: { baseUrl: string; top: number }) => {
    const { model, passages } = await readIndex(path);
    const limits = { maxBatch: 1, concurrency: 1, requestsPerMinute: Infinity, tokensPerMinute: Infinity };
    const embedder = openEmbedder({ baseUrl, model, ...limits });
    try {
      const vector = await embedder.embedAsync(question, { lane: QUESTIONS });
      for (const hit of search(passages, vector, top)) print(hitText(hit));
    } finally {
      embedder.close();
    }
  });

try {
  await program.parseAsync();
} catch (error) {
  console.error(`semantic-search: ${stripVTControlCharacters(reasonOf(error))}`);
  process.exitCode = 1;
}

/** Documents and providers may send what a terminal would act upon. */
function print(text: string): void {
  console.log(stripVTControlCharacters(text));
}

/** On a terminal a line that changes, elsewhere a line every five seconds. */
function showProgress(text: () => string): { end(): void } {
  const update = process.stderr.isTTY ? createLogUpdate(process.stderr) : undefined;
  const show = (): void => {
    (update ?? console.error)(text());
  };
  const timer = setInterval(show, update ? 100 : 5000);
  return {
    end: () => {
      clearInterval(timer);
      update?.clear();
      update?.done();
    },
  };
}
