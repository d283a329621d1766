import { mkdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { onAbort } from '../../operators/toolkit.js';
import type { FlowEvent, Settled } from '../../operators/types.js';
import type { Questions } from '../edge/questions.js';
import { FlowStats } from '../metrics/flow-stats.js';
import type { Embedder, EmbedderSnapshot } from '../pipelines/create-embedder.js';
import { Asker, readQuestions } from './asker.js';
import type { Chunk } from './chunks.js';
import { type Corpus, type CorpusOptions, readCorpus } from './corpus.js';
import { CliError, EXIT, type ExitCode, onDisk } from './exit.js';
import { INDEX_MARK, type IndexContent, type IndexEntry, readIndex, writeIndex } from './index-file.js';
import type { IndexSummary, LostPassage, QuestionResult } from './index-summary.js';
import { removeJournal } from './journal.js';
import { type LatencySummary, summarizeLatencies } from './latency.js';
import { takeLock } from './lock.js';
import { OWN_FOLDER_MODE, refuseForeignFile } from './own-file.js';
import { explainFailure, NotSentError, openEmbedder, type ProviderOptions } from './provider.js';
import { searchIndex } from './search-index.js';
import { readVectorJournal, type VectorCache, VectorJournal, vectorKey } from './vector-journal.js';

export interface IndexJobOptions extends Omit<CorpusOptions, 'exclude'> {
  /** Path of the index file. */
  readonly output: string;
  /** Path of a questions file. */
  readonly ask: string | undefined;
  readonly provider: ProviderOptions;
  /** Poisoned passages make the exit code 1. */
  readonly strict: boolean;
}

export interface IndexJobSignals {
  /** Ends gently: nothing new is sent, what is under way is waited for and kept. */
  readonly stop: AbortSignal;
  /** Ends at once. */
  readonly abort: AbortSignal;
}

/** What is going on right now. */
export interface JobProgress {
  readonly phase: 'reading' | 'measuring the idle server' | 'embedding' | 'stopping' | 'writing';
  /** Passages with a vector, or known to get none. */
  readonly done: number;
  readonly total: number;
  readonly flow: EmbedderSnapshot | undefined;
  /** How full the background batches are, from 0 to 1. */
  readonly meanFill: number;
  readonly p0: LatencySummary;
}

/** Lane of the passages; questions go before them. */
const BACKGROUND = 'P2';

/** Reads, embeds and writes one index. Draws nothing: `progress()` says what is going on, `run()` resolves to the summary. */
export class IndexJob {
  readonly #options: IndexJobOptions;
  readonly #signals: IndexJobSignals;
  readonly #paths: { readonly index: string; readonly journal: string; readonly lock: string };
  readonly #startedAtMs = performance.now();
  readonly #notes: string[] = [];
  readonly #background: FlowStats;
  /** Ends the run early from inside: a full disk, a refused key. */
  readonly #failure = new AbortController();
  readonly #vectors: VectorCache = new Map();
  /** Why a text has no vector, by its SHA-256. */
  readonly #unembedded = new Map<string, { readonly kind: 'poisoned' | 'failed'; readonly reason: string }>();
  #phase: JobProgress['phase'] = 'reading';
  #corpus: Corpus = { chunks: [], skipped: [] };
  #pending: readonly Chunk[] = [];
  #embedder: Embedder | undefined;
  #asker: Asker | undefined;
  #sent = 0;
  #returned = 0;
  #embedded = 0;
  readonly #backgroundCallsMs: number[] = [];
  #callEnded = (): void => undefined;

  constructor(options: IndexJobOptions, signals: IndexJobSignals) {
    this.#options = options;
    this.#signals = signals;
    this.#background = new FlowStats(options.provider.maxBatch);
    const index = resolve(options.cwd, options.output);
    this.#paths = { index, journal: `${index}.journal`, lock: `${index}.lock` };
  }

  progress(): JobProgress {
    const open = this.#pending.length - this.#embedded - this.#unembedded.size;
    return {
      phase: this.#signals.stop.aborted && this.#phase === 'embedding' ? 'stopping' : this.#phase,
      done: this.#corpus.chunks.length - open,
      total: this.#corpus.chunks.length,
      flow: this.#embedder?.snapshot(),
      meanFill: this.#background.totals().meanFill,
      p0: summarizeLatencies([...(this.#asker?.idleMs ?? []), ...(this.#asker?.whileIndexingMs ?? [])].slice(-100)),
    };
  }

  /** @throws CliError when the run cannot be finished; what was embedded stays in the journal. */
  async run(): Promise<IndexSummary> {
    const { ask, cwd, output } = this.#options;
    const questions = ask === undefined ? [] : await readQuestions(ask, cwd);
    await refuseSpecialFile(this.#paths.index, output);
    await refuseForeignFile(this.#paths.index, output, INDEX_MARK, 'an index');
    this.#corpus = await readCorpus({ ...this.#options, exclude: Object.values(this.#paths) });
    await onDisk(`create the folder of \`${output}\``, () => mkdir(dirname(this.#paths.index), { recursive: true, mode: OWN_FOLDER_MODE }));
    const release = await takeLock(this.#paths.lock, 'index');
    try {
      const journal = await this.#openJournal();
      try {
        await this.#embed(questions, journal);
      } finally {
        await journal.close();
      }
      return await this.#finish(questions);
    } finally {
      await release();
    }
  }

  async #openJournal(): Promise<VectorJournal> {
    const { index, journal } = this.#paths;
    for (const entry of await this.#oldEntries(index)) this.#vectors.set(vectorKey(entry.model, entry.sha256), entry.vector);
    const old = await readVectorJournal(journal, `${this.#options.output}.journal`);
    for (const [key, vector] of old.vectors) this.#vectors.set(key, vector);
    if (old.damagedLines > 0) this.#notes.push(`${String(old.damagedLines)} damaged lines of the journal were skipped`);
    this.#pending = this.#unknownTexts();
    return VectorJournal.open(journal, old.length);
  }

  async #oldEntries(path: string): Promise<(IndexEntry & { readonly model: string })[]> {
    try {
      const { model, entries } = await readIndex(path);
      return entries.map((entry) => ({ ...entry, model }));
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      // The first run has no index to read; any other reason is worth a word.
      if ((error.cause as NodeJS.ErrnoException | undefined)?.code !== 'ENOENT')
        this.#notes.push(`the old index is not reused: ${error.message}`);
      return [];
    }
  }

  /** One chunk for each text that has no vector yet. */
  #unknownTexts(): Chunk[] {
    const texts = new Map<string, Chunk>();
    for (const chunk of this.#corpus.chunks)
      if (this.#vector(chunk) === undefined) texts.set(chunk.sha256, texts.get(chunk.sha256) ?? chunk);
    return [...texts.values()];
  }

  #vector(chunk: Chunk): Float32Array | undefined {
    return this.#vectors.get(vectorKey(this.#options.provider.model, chunk.sha256));
  }

  async #embed(questions: Questions, journal: VectorJournal): Promise<void> {
    if (this.#pending.length === 0 && questions.length === 0) return;
    const abort = AbortSignal.any([this.#signals.abort, this.#failure.signal]);
    const stop = AbortSignal.any([this.#signals.stop, abort]);
    const tell = (event: FlowEvent): void => {
      this.#observe(event);
    };
    const embedder = openEmbedder(this.#options.provider, tell, stop);
    this.#embedder = embedder;
    const texts = questions.map(({ question }) => question);
    const asker = new Asker(embedder, texts, abort, (error) => {
      if (error instanceof NotSentError) return;
      const failure = explainFailure(error, this.#options.provider);
      if (failure.kind === 'stop') this.#failure.abort(failure.error);
    });
    this.#asker = asker;
    try {
      this.#phase = 'measuring the idle server';
      await asker.askIdle(stop);
      this.#phase = 'embedding';
      const done = new AbortController();
      const asking = asker.askWhile(AbortSignal.any([done.signal, stop]));
      try {
        await this.#embedTexts(embedder, journal, stop, abort);
      } finally {
        done.abort();
        await asking;
      }
    } finally {
      embedder.close();
    }
    if (this.#failure.signal.aborted) throw this.#failure.signal.reason;
  }

  #embedTexts(embedder: Embedder, journal: VectorJournal, stop: AbortSignal, abort: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const results = embedder.embedFrom(this.#send(stop), { lane: BACKGROUND }).subscribe({
        next: (result) => {
          this.#settle(result, journal);
        },
        error: reject,
        complete: resolve,
      });
      const leave = (): void => {
        results.unsubscribe();
        resolve();
      };
      onAbort(abort, leave);
      this.#callEnded = () => {
        if (!stop.aborted || embedder.snapshot().executing > 0) return;
        // What waits, for its turn or to be sent again, may wait for minutes. The next run takes it.
        this.#sent = this.#returned;
        leave();
      };
      onAbort(stop, this.#callEnded);
    });
  }

  *#send(stop: AbortSignal): Generator<string> {
    for (const chunk of this.#pending) {
      if (stop.aborted) return;
      this.#sent += 1;
      yield chunk.text;
    }
  }

  #settle(result: Settled<string, Float32Array>, journal: VectorJournal): void {
    this.#returned += 1;
    const { sha256 } = this.#pending[result.index] as Chunk;
    const { provider } = this.#options;
    if (result.status === 'fulfilled') {
      this.#vectors.set(vectorKey(provider.model, sha256), result.value);
      this.#embedded += 1;
      try {
        journal.add(provider.model, sha256, result.value);
      } catch (error) {
        this.#failure.abort(error);
      }
      return;
    }
    if (result.reason instanceof NotSentError) return;
    const failure = explainFailure(result.reason, provider);
    if (failure.kind === 'stop') this.#failure.abort(failure.error);
    else this.#unembedded.set(sha256, failure);
  }

  #observe(event: FlowEvent): void {
    if (!('lane' in event) || event.lane !== BACKGROUND) return;
    // Questions travel alone, so their batches are left out of how full batches are.
    this.#background.add(event);
    if (event.type !== 'attemptEnded') return;
    this.#backgroundCallsMs.push(event.latencyMs);
    // When its results are here.
    setImmediate(() => {
      this.#callEnded();
    });
  }

  async #finish(questions: Questions): Promise<IndexSummary> {
    if (this.#signals.stop.aborted) return this.#summary(EXIT.interrupted, [], []);
    this.#phase = 'writing';
    const content = this.#content();
    await writeIndex(this.#paths.index, content);
    await removeJournal(this.#paths.journal);
    const kinds = [...this.#unembedded.values()].map(({ kind }) => kind);
    const incomplete = kinds.includes('failed') || (this.#options.strict && kinds.includes('poisoned'));
    return this.#summary(incomplete ? EXIT.incomplete : EXIT.ok, content.entries, this.#evaluate(questions, content.entries));
  }

  #content(): IndexContent {
    const entries = this.#corpus.chunks.flatMap((chunk) => {
      const vector = this.#vector(chunk);
      return vector === undefined ? [] : [{ ...chunk, vector }];
    });
    const [unembedded] = this.#unembedded.values();
    // An index of nothing would only replace one that can be searched.
    if (entries.length === 0 && unembedded !== undefined)
      throw new CliError(EXIT.provider, `no passage could be embedded: ${unembedded.reason}`);
    const lengths = new Set(entries.map(({ vector }) => vector.length));
    if (lengths.size > 1) {
      const problem = `the model \`${this.#options.provider.model}\` gave vectors of different lengths (${[...lengths].join(', ')})`;
      const { index, journal } = this.#paths;
      throw new CliError(EXIT.provider, `${problem}; remove \`${index}\` and \`${journal}\` to embed everything again`);
    }
    return { model: this.#options.provider.model, documents: new Set(entries.map(({ file }) => file)).size, entries };
  }

  #evaluate(questions: Questions, entries: readonly IndexEntry[]): QuestionResult[] {
    return questions.map(({ question, expected }) => {
      const vector = this.#asker?.vectors.get(question);
      const best = vector === undefined ? undefined : searchIndex(entries, vector, 1)[0];
      return { question, expected, found: best?.entry.file, score: best?.score, hit: best?.entry.file === expected };
    });
  }

  #summary(exitCode: ExitCode, entries: readonly IndexEntry[], questions: readonly QuestionResult[]): IndexSummary {
    const { provider, output } = this.#options;
    const flow = this.#embedder?.snapshot();
    const accepted = this.#sent + (this.#asker?.asked ?? 0);
    const settled = this.#returned + (this.#asker?.answered ?? 0) + (this.#asker?.failed ?? 0);
    const unknown = new Set(this.#pending.map(({ sha256 }) => sha256));
    const reused = this.#corpus.chunks.filter(({ sha256 }) => !unknown.has(sha256)).length;
    return {
      exitCode,
      interrupted: exitCode === EXIT.interrupted,
      index: output,
      journal: `${output}.journal`,
      model: provider.model,
      documents: new Set(this.#corpus.chunks.map(({ file }) => file)).size,
      chunks: this.#corpus.chunks.length,
      indexed: entries.length,
      embedded: this.#embedded,
      reused,
      duplicates: this.#corpus.chunks.length - reused - this.#pending.length,
      calls: flow?.calls ?? 0,
      callsWithoutBatching: accepted,
      meanFill: this.#background.totals().meanFill,
      throttled: flow?.throttled ?? 0,
      retries: flow?.retries ?? 0,
      splits: flow?.splits ?? 0,
      backgroundCalls: summarizeLatencies(this.#backgroundCallsMs),
      poisoned: this.#lost('poisoned'),
      failed: this.#lost('failed'),
      skipped: this.#corpus.skipped,
      p0Idle: summarizeLatencies(this.#asker?.idleMs ?? []),
      p0WhileIndexing: summarizeLatencies(this.#asker?.whileIndexingMs ?? []),
      questionsFailed: this.#asker?.failed ?? 0,
      questions,
      accepted,
      settled,
      lost: accepted - settled,
      notes: this.#notes,
      durationMs: performance.now() - this.#startedAtMs,
    };
  }

  #lost(kind: 'poisoned' | 'failed'): LostPassage[] {
    return this.#corpus.chunks.flatMap(({ file, startLine, endLine, sha256 }) => {
      const failure = this.#unembedded.get(sha256);
      return failure?.kind === kind ? [{ file, startLine, endLine, reason: failure.reason }] : [];
    });
  }
}

/** A device can be read without end, and is no place for an index. */
async function refuseSpecialFile(path: string, shown: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found && !found.isFile() && !found.isDirectory())
    throw new CliError(EXIT.usage, `\`${shown}\` is a device, not a file to write an index to`);
}
