import { type FileHandle, open } from 'node:fs/promises';
import { checkJson } from '../../edge/check.js';
import { type RunLine, runLineSchema } from '../../edge/run-lines.js';
import { onDisk } from '../../journal/file-error.js';
import { Journal, type JournalContent, type JournalPlace, jsonAt, readJournal } from '../../journal/line-journal.js';
import type { JournalEntry, StageJournal } from '../../pipelines/stages/stages-types.js';
import { CliError, EXIT } from '../exit.js';
import { KeyCounts } from './key-counts.js';
import type { BadRow, Row } from './row.js';

/** How a document ended: wholly, in part of its items, not at all. */
export type DocumentStatus = 'ok' | 'partial' | 'failed';

/** A document that is over, with how long the files were when its lines were in them. */
export interface DocumentEnd {
  readonly documentId: string;
  readonly status: DocumentStatus;
  readonly outputBytes: number;
  readonly failuresBytes: number;
}

export interface RunJournalOptions {
  readonly path: string;
  /** What the user knows it as. */
  readonly shown: string;
  /** Stands for what the stages ask: answers to other questions are of no use. */
  readonly work: string;
  /** Takes up again what has failed. */
  readonly retryFailed: boolean;
}

/** An entry of a document that is not over, or has failed. */
interface KnownEntry extends JournalPlace {
  /** Whether the lines made of it are in the output. */
  written: boolean;
}

/** Bytes of a file: from the first up to the second. */
export type Span = readonly [from: number, to: number];

/** Where lines may stand that the journal does not know of, for some of its own are damaged. */
export interface Gap {
  readonly output: Span;
  readonly failures: Span;
  /** The document whose lines these are: one that is taken up again. Undefined for all whose end is not known. */
  readonly document?: string;
  /** Whether a row is one of those. */
  concerns(row: number): boolean;
}

const ADVICE = 'give another `output.path`, or remove it first';

/**
 * What a run has got so far, in a file that outlives it: a line for each answer and for each document that is over. In memory are counts of the
 * rows that are done, found when the run begins, and where the answers of unfinished documents stand; never an answer.
 */
export class RunJournal implements StageJournal {
  readonly #options: RunJournalOptions;
  readonly #length: number;
  readonly #scan: Scan;
  /** Lines that were of no use. */
  readonly damagedLines: number;
  /** Of documents in progress, the items that are in the output. */
  readonly #written = new Map<string, Set<string>>();
  #journal: Journal | undefined;
  #reader: FileHandle | undefined;

  private constructor(options: RunJournalOptions, scan: Scan, { length, damagedLines }: JournalContent) {
    this.#options = options;
    this.#scan = scan;
    this.#length = length;
    this.damagedLines = damagedLines;
  }

  /**
   * Reads what is there, and changes nothing.
   *
   * @throws CliError: exit code 2 when something else stands there, or a journal of other stages; 4 when it cannot be read.
   */
  static async read(options: RunJournalOptions): Promise<RunJournal> {
    const { path, shown, work } = options;
    const scan = new Scan();
    const content = await readJournal(path, shown, ADVICE, (json, place) => scan.take(json, place));
    if (scan.work === undefined || scan.work === work) return new RunJournal(options, scan, content);
    if (scan.hasAnswers)
      throw new CliError(
        EXIT.usage,
        `the journal \`${shown}\` has answers to other prompts, or of another model; give another \`output.path\`, or remove it, the output and the failures to begin anew`,
      );
    // Nothing but failures: a prompt was wrong, and has been put right.
    const anew = new Scan();
    anew.work = work;
    return new RunJournal(options, anew, { length: 0, damagedLines: 0 });
  }

  /** Whether nothing was ever run on it. */
  get isNew(): boolean {
    return this.#scan.work === undefined;
  }

  /** Whether earlier runs have got answers. */
  get hasAnswers(): boolean {
    return this.#scan.hasAnswers;
  }

  /** Begins a run. @throws CliError (exit code 4) when it cannot be written. */
  async begin(): Promise<void> {
    this.#journal = await Journal.open(this.#options.path, this.#length);
    await this.#journal.add(await this.look());
  }

  /** Knows what a run has to do that begins now, and changes nothing. @throws CliError (exit code 4) when it cannot be read. */
  async look(): Promise<RunLine> {
    const { path, work, retryFailed } = this.#options;
    const begun: RunLine = { format: 'sluice-run', version: 1, work, retryFailed };
    this.#scan.begin(begun);
    if (this.#scan.open.size > 0) this.#reader = await onDisk(`read the journal \`${path}\``, () => open(path, 'r'));
    return begun;
  }

  /** How long the files have to be. */
  get outputBytes(): number {
    return this.#scan.outputBytes;
  }

  get failuresBytes(): number {
    return this.#scan.failuresBytes;
  }

  get gaps(): readonly Gap[] {
    return this.#scan.gaps.filter(({ document }) => document === undefined || this.#scan.open.has(document));
  }

  /** What an earlier run has made of the row, or of one that is equal to it; undefined when it is still to do. Asked once for each row. */
  endOf({ key }: Row | BadRow): 'earlier' | 'earlierFailed' | undefined {
    if (this.#scan.done.take(key)) return 'earlier';
    return this.#scan.failed.take(key) ? 'earlierFailed' : undefined;
  }

  /** The name by which a row that is not done is known here: the one it had in an earlier run, if some of it is known from there. */
  nameOf({ number, key }: Row | BadRow): string {
    const known = this.#scan.openByKey.get(key)?.shift();
    return known ?? `${String(this.#scan.runs)}-${String(number)}:${key}`;
  }

  /** Whether a document that is taken up again had failed. */
  hasFailed(documentId: string): boolean {
    return this.#scan.retried.has(documentId);
  }

  async recall(documentId: string): Promise<readonly JournalEntry[]> {
    const known = this.#scan.open.get(documentId);
    if (known === undefined) return [];
    this.#scan.open.delete(documentId);
    const written = new Set<string>();
    const entries: JournalEntry[] = [];
    for (const place of known) {
      const entry = await this.#entryAt(place);
      if (entry === undefined) continue;
      entries.push(entry);
      if (place.written) written.add(`${entry.stage} ${entry.item}`);
    }
    if (written.size > 0) this.#written.set(documentId, written);
    return entries;
  }

  /** Whether an earlier run has written the lines of an item whose last stage this is. */
  isWritten(documentId: string, stage: string, item: string): boolean {
    return this.#written.get(documentId)?.has(`${stage} ${item}`) ?? false;
  }

  async append({ documentId, stage, item, value }: JournalEntry): Promise<void> {
    await this.#add({ document: documentId, stage, item, value: value ?? null });
  }

  /** A document is over, and its lines are in the files. */
  async end({ documentId, status, outputBytes, failuresBytes }: DocumentEnd): Promise<void> {
    this.#written.delete(documentId);
    await this.#add({ done: documentId, status, output: outputBytes, failures: failuresBytes });
  }

  /** @throws CliError (exit code 4) when something could not be written. */
  async close(): Promise<void> {
    await this.#reader?.close();
    await this.#journal?.close();
  }

  #add(line: RunLine): Promise<void> {
    if (this.#journal === undefined) throw new Error('no run has begun');
    return this.#journal.add(line);
  }

  async #entryAt(place: JournalPlace): Promise<JournalEntry | undefined> {
    const reader = this.#reader;
    const json = reader && (await onDisk(`read the journal \`${this.#options.path}\``, () => jsonAt(reader, place)));
    const checked = json === undefined ? { problem: '' } : checkJson(runLineSchema, json);
    if ('problem' in checked || !('document' in checked.value)) return undefined;
    const { document: documentId, stage, item, value } = checked.value;
    return { documentId, stage, item, value };
  }
}

/** What is kept of a journal that is read. */
class Scan {
  runs = 0;
  work: string | undefined;
  hasAnswers = false;
  outputBytes = 0;
  failuresBytes = 0;
  /** Rows that need nothing more. */
  readonly done = new KeyCounts();
  /** Rows that did not make it, and are not to be tried again. */
  failed = new KeyCounts();
  /** Entries of documents that are not over. */
  readonly open = new Map<string, KnownEntry[]>();
  /** Names of those, by the key of their row. */
  readonly openByKey = new Map<string, string[]>();
  /** Names of those that had failed. */
  readonly retried = new Set<string>();
  gaps: Gap[] = [];
  /** Rows that have ended since there are gaps, and how many there were then. */
  readonly #endedAt = new Map<number, number>();
  /** Where the last line ended that was whole. */
  #end = 0;
  #isDamaged = false;
  /** Entries of documents that have failed, or some of whose items have. */
  readonly #failedDocuments = new Map<string, KnownEntry[]>();

  take(json: string, place: JournalPlace): boolean {
    const checked = checkJson(runLineSchema, json);
    if ('problem' in checked) return false;
    if (place.offset > this.#end) this.#isDamaged = true;
    this.#end = place.offset + place.bytes;
    const line = checked.value;
    if ('format' in line) {
      this.#begun(line);
    } else if ('done' in line) {
      this.#ended(line);
    } else {
      this.hasAnswers = true;
      const known = this.open.get(line.document);
      const entry = { ...place, written: false };
      if (known === undefined) this.open.set(line.document, [entry]);
      else known.push(entry);
    }
    return true;
  }

  /** The run that reads has begun. */
  begin(line: Extract<RunLine, { format: string }>): void {
    this.#begun(line);
    for (const document of this.open.keys()) {
      const key = keyIn(document);
      const names = this.openByKey.get(key);
      if (names === undefined) this.openByKey.set(key, [document]);
      else names.push(document);
    }
  }

  #begun({ work, retryFailed }: Extract<RunLine, { format: string }>): void {
    this.runs += 1;
    this.work = work;
    if (!retryFailed) return;
    for (const [document, entries] of this.#failedDocuments) {
      this.open.set(document, entries);
      this.retried.add(document);
    }
    this.#failedDocuments.clear();
    this.failed = new KeyCounts();
    // The failures file begins anew with such a run.
    this.failuresBytes = 0;
    this.gaps = this.gaps.map((gap) => ({ ...gap, failures: [0, 0] }));
  }

  #ended({ done: document, status, output, failures }: Extract<RunLine, { done: string }>): void {
    if (this.#isDamaged) this.#addGap([this.outputBytes, output], [this.failuresBytes, failures]);
    if (this.gaps.length > 0) this.#endedAfterGap(document, status, [this.outputBytes, output]);
    this.outputBytes = output;
    this.failuresBytes = failures;
    const entries = this.open.get(document) ?? [];
    this.open.delete(document);
    this.retried.delete(document);
    if (status === 'ok') {
      this.done.add(keyIn(document));
      return;
    }
    this.failed.add(keyIn(document));
    if (status === 'partial') for (const entry of entries) entry.written = true;
    this.#failedDocuments.set(document, entries);
  }

  #addGap(output: Span, failures: Span): void {
    this.#isDamaged = false;
    const index = this.gaps.length;
    this.gaps.push({ output, failures, concerns: (row) => (this.#endedAt.get(row) ?? 0) <= index });
  }

  #endedAfterGap(document: string, status: DocumentStatus, output: Span): void {
    const ownRow = rowIn(document);
    this.#endedAt.set(ownRow, this.gaps.length);
    // Some of its answers may be lost, by which it would know what it has written.
    if (status === 'partial') this.gaps.push({ output, failures: [0, 0], document, concerns: (row) => row === ownRow });
  }
}

function rowIn(document: string): number {
  return Number(document.slice(document.indexOf('-') + 1, document.indexOf(':')));
}

function keyIn(document: string): string {
  return document.slice(document.indexOf(':') + 1);
}
