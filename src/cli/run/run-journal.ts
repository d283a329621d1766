import { type FileHandle, open } from 'node:fs/promises';
import { checkJson } from '../../edge/check.js';
import { type RunLine, runLineSchema } from '../../edge/run-lines.js';
import { onDisk } from '../../journal/file-error.js';
import { Journal, type JournalContent, type JournalPlace, jsonAt, readJournal } from '../../journal/line-journal.js';
import type { JournalEntry, StageJournal } from '../../pipelines/stages/stages-types.js';
import { CliError, EXIT } from '../exit.js';
import { KeyCounts } from './key-counts.js';
import type { BadRow, Row } from './row.js';
import type { StageKey } from './run-plan.js';
import { AnswerCounts, type StageChange } from './stage-change.js';

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
  /** Stands for all that the stages ask. */
  readonly work: string;
  /** What answers of each stage have to be answers to. */
  readonly stages: readonly StageKey[];
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
  /** What the run that reads has changed of the stages, and what is kept all the same; undefined when nothing has changed. */
  readonly change: StageChange | undefined;
  /** Of documents in progress, the items that are in the output. */
  readonly #written = new Map<string, Set<string>>();
  #journal: Journal | undefined;
  #reader: FileHandle | undefined;

  private constructor(options: RunJournalOptions, { scan, length, damagedLines }: ScannedJournal, change?: StageChange) {
    this.#options = options;
    this.#scan = scan;
    this.#length = length;
    this.damagedLines = damagedLines;
    this.change = change;
  }

  /**
   * Reads what is there, and changes nothing.
   *
   * @throws CliError: exit code 2 when something else stands there, or a journal of other stages; 4 when it cannot be read.
   */
  static async read(options: RunJournalOptions): Promise<RunJournal> {
    const { shown, work } = options;
    const found = await scanned(options, 0);
    const { scan } = found;
    const isChanged = scan.work !== undefined && (scan.work !== work || scan.isMixed);
    if (!isChanged && scan.changes === 0) return new RunJournal(options, found);
    if (!isChanged) return new RunJournal(options, await scanned(options, scan.changes));
    if (!scan.hasAnswers && scan.outputBytes === 0) {
      // Nothing but failures: a prompt was wrong, and has been put right.
      const anew = new Scan(options, 0);
      anew.work = work;
      return new RunJournal(options, { scan: anew, length: 0, damagedLines: 0 });
    }
    const again = await scanned(options, scan.changes + 1);
    const { counts } = again.scan;
    if (counts.kept.size === 0)
      throw new CliError(
        EXIT.usage,
        `the journal \`${shown}\` has answers to other prompts, or of another model; give another \`output.path\`, or remove it, the output and the failures to begin anew`,
      );
    return new RunJournal(options, again, counts.changeOf([...again.scan.stages.values()], options.stages));
  }

  /** Whether nothing was ever run on it. */
  get isNew(): boolean {
    return this.#scan.work === undefined;
  }

  /** Whether earlier runs have got answers. */
  get hasAnswers(): boolean {
    return this.#scan.hasAnswers;
  }

  /** Whether an earlier run has changed the stages. */
  get hasChanged(): boolean {
    return this.#scan.changes > 0 || this.#scan.isMixed;
  }

  /** Begins a run: what stands behind the lengths of the files may be cut off then. @throws CliError (exit code 4) when it cannot be written. */
  async begin(): Promise<void> {
    this.#journal = await Journal.open(this.#options.path, this.#length);
    await this.#journal.add(await this.look());
    await this.#journal.sync();
  }

  /** Knows what a run has to do that begins now, and changes nothing. @throws CliError (exit code 4) when it cannot be read. */
  async look(): Promise<RunLine> {
    const { path, work, stages, retryFailed } = this.#options;
    const begun: RunLine = { format: 'sluice-run', version: 1, work, stages: [...stages], retryFailed };
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

  /** Rows that an earlier run was through with, and that {@link endOf} was not asked for yet. */
  get rowsToCome(): number {
    return this.#scan.done.total + this.#scan.failed.total;
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
    const key = this.#options.stages.find(({ name }) => name === stage)?.key;
    await this.#add({ document: documentId, stage, item, value: value ?? null, ...(key !== undefined && { key }) });
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

interface ScannedJournal extends JournalContent {
  readonly scan: Scan;
}

/** @param changes of the stages: what stands before that many of them is of other outputs. */
async function scanned(options: RunJournalOptions, changes: number): Promise<ScannedJournal> {
  const scan = new Scan(options, changes);
  const content = await readJournal(options.path, options.shown, ADVICE, (json, place) => scan.take(json, place));
  return { scan, ...content };
}

/**
 * What is kept of a journal that is read. Each time that the stages have changed, all rows were taken up again and the output was begun anew: of
 * what stands before the last change, only answers count that are answers to what is asked now.
 */
class Scan {
  readonly #options: RunJournalOptions;
  readonly #lastChange: number;
  /** What the answers of stages are answers to, at this place of the file. */
  stages: ReadonlyMap<string, StageKey>;
  readonly #wanted: ReadonlyMap<string, StageKey>;
  readonly counts = new AnswerCounts();
  changes = 0;
  /** Whether there are answers to something else than the last run asked: it is not known where that began. */
  isMixed = false;
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

  constructor(options: RunJournalOptions, lastChange: number) {
    this.#options = options;
    this.#lastChange = lastChange;
    this.#wanted = byName(options.stages);
    this.stages = this.#wanted;
  }

  take(json: string, place: JournalPlace): boolean {
    const checked = checkJson(runLineSchema, json);
    if ('problem' in checked) return false;
    if (place.offset > this.#end) this.#isDamaged = true;
    this.#end = place.offset + place.bytes;
    const line = checked.value;
    if ('format' in line) this.#begun(line);
    else if ('done' in line) this.#ended(line);
    else this.#answered(line, place);
    return true;
  }

  #answered({ document, stage, key }: Extract<RunLine, { document: string }>, place: JournalPlace): void {
    const current = this.stages.get(stage);
    const asks = current?.asks ?? true;
    if (key !== undefined && key !== current?.key) this.isMixed = true;
    const given = key ?? current?.key;
    const isKept = given !== undefined && given === this.#wanted.get(stage)?.key;
    this.hasAnswers ||= asks;
    if (asks) this.counts.add(stage, isKept);
    if (!isKept) return;
    const entry = { ...place, written: false };
    const known = this.open.get(document);
    if (known === undefined) this.open.set(document, [entry]);
    else known.push(entry);
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

  #begun({ work, stages, retryFailed }: Extract<RunLine, { format: string }>): void {
    this.runs += 1;
    const isChange = this.work !== undefined && (this.work !== work || this.isMixed);
    if (isChange) {
      this.changes += 1;
      this.counts.changed();
      this.isMixed = this.#isDamaged = false;
    }
    this.work = work;
    this.stages = stages === undefined ? (work === this.#options.work ? this.#wanted : new Map()) : byName(stages);
    if (this.changes >= this.#lastChange && (isChange || retryFailed)) this.#reopen();
  }

  /** Takes up again what has failed. The failures file begins anew with such a run. */
  #reopen(): void {
    for (const [document, entries] of this.#failedDocuments) {
      this.open.set(document, this.open.get(document) ?? entries);
      this.retried.add(document);
    }
    this.#failedDocuments.clear();
    this.failed = new KeyCounts();
    this.failuresBytes = 0;
    this.gaps = this.gaps.map((gap) => ({ ...gap, failures: [0, 0] }));
  }

  #ended({ done: document, status, output, failures }: Extract<RunLine, { done: string }>): void {
    if (this.changes < this.#lastChange) {
      // Its lines are in another output.
      if (status === 'ok') this.#failedDocuments.delete(document);
      else this.#failedDocuments.set(document, []);
      return;
    }
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

function byName(stages: readonly StageKey[]): ReadonlyMap<string, StageKey> {
  return new Map(stages.map((stage) => [stage.name, stage]));
}

function rowIn(document: string): number {
  return Number(document.slice(document.indexOf('-') + 1, document.indexOf(':')));
}

function keyIn(document: string): string {
  return document.slice(document.indexOf(':') + 1);
}
