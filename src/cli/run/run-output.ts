import { copyFile, open, rename, stat } from 'node:fs/promises';
import { onDisk } from '../../journal/file-error.js';
import { LineFile } from '../../journal/line-file.js';
import { readLines } from '../../journal/lines.js';
import { CliError, EXIT } from '../exit.js';
import { refuseForeignFile } from '../own-file.js';
import { visible } from '../visible.js';
import type { FailedFor } from './answer.js';
import { ownerOf, type RunPaths } from './run-files.js';
import type { DocumentStatus, RunJournal } from './run-journal.js';
import { Standing } from './standing.js';

/** One item that came through all stages. */
export interface OutputLine {
  readonly id: string;
  readonly row: number;
  /** Which item of its document; left out when the document is one. */
  readonly item?: string;
  /** By stage, what came of it. */
  readonly [stage: string]: unknown;
}

/** Something that did not come through. */
export interface FailureLine {
  readonly id: string;
  readonly row: number;
  readonly item?: string;
  readonly stage?: string;
  readonly error: string;
  /** Of an answer that came: what was wrong with it. */
  readonly fault?: FailedFor;
  /** What came of its text. */
  readonly partial?: string;
}

/** What a document leaves behind. */
export interface FinishedDocument {
  readonly documentId: string;
  readonly status: DocumentStatus;
  readonly output: readonly OutputLine[];
  readonly failures: readonly FailureLine[];
}

export interface OutputPaths {
  readonly output: string;
  readonly failures: string;
}

/**
 * What stands in the output has to be what the journal knows of it: all else would be lost.
 *
 * @param shown what the user calls the output.
 * @throws CliError (exit code 2) when it is not.
 */
export async function checkOutput({ output, failures, before }: RunPaths, shown: string, journal: RunJournal): Promise<void> {
  const bytes = await sizeOf(output);
  const bytesBefore = await sizeOf(before);
  // As long as the output is one that a killed process has copied.
  if (journal.change !== undefined && !journal.hasChanged && bytes > 0 && bytesBefore > 0 && bytesBefore !== bytes)
    throw new CliError(
      EXIT.usage,
      `\`${shown}.before\` is there already, and the output would be kept there, for the stages have changed; move it, or remove it first`,
    );
  const problem =
    journal.isNew && bytes > 0
      ? 'is there already, and no journal belongs to it; give another `output.path`, or remove it first'
      : bytes < journal.outputBytes
        ? `is shorter than its journal says; put it back, or remove it, its failures and \`${shown}.journal\` to begin anew`
        : undefined;
  if (problem !== undefined) throw new CliError(EXIT.usage, `\`${shown}\` ${problem}`);
  const failuresBytes = await sizeOf(failures);
  if (journal.isNew && failuresBytes > 0)
    throw new CliError(
      EXIT.usage,
      `\`${failures}\` is there already, and no journal belongs to it; give another \`output.failures\`, or remove it first`,
    );
  const owner = ownerOf({ output, failures });
  if (owner !== undefined) await refuseForeignFile(failures, failures, markOf(owner), `what failed of \`${shown}\``);
  if (!journal.isNew && journal.change === undefined) {
    await refuseForeignLines(output, shown, journal.outputBytes, OUTPUT_MARK);
    await refuseForeignLines(failures, failures, journal.failuresBytes, owner === undefined ? FAILURE_MARK : markOf(owner));
  }
}

/** Keeps what stands in the output, which is about to begin anew. @throws CliError (exit code 4) when it cannot be copied. */
export async function keepOutput({ output, before, newBefore }: RunPaths, shown: string): Promise<void> {
  if ((await sizeOf(output)) === 0) return;
  await onDisk(`keep the output as \`${shown}.before\``, async () => {
    await copyFile(output, newBefore);
    const file = await open(newBefore, 'r+');
    await file.sync().finally(() => file.close());
    await rename(newBefore, before);
  });
}

/** How each line of an output begins, and of failures whose name says whose they are. */
const OUTPUT_MARK = '{"id":';
const FAILURE_MARK = '{"failure":';

/** Lets pass what a killed run has written behind the length that its journal knows. @throws CliError (exit code 2) when it is something else */
async function refuseForeignLines(path: string, shown: string, length: number, mark: string): Promise<void> {
  if ((await sizeOf(path)) <= length) return;
  await onDisk(`read \`${shown}\``, async () => {
    // The last line may be torn.
    for await (const { text } of readLines(path, length))
      if (!text.startsWith(mark) && !mark.startsWith(text))
        throw new CliError(
          EXIT.usage,
          `\`${shown}\` has lines at its end that no run has written, and a run would cut them off; move them to another file`,
        );
  });
}

/** Lines at the end of the output that the journal does not know of. An output that begins anew after a change of the stages is kept as a whole. */
export async function unknownLines({ output }: OutputPaths, journal: RunJournal): Promise<number> {
  const beginsAnew = journal.change !== undefined || (journal.hasChanged && journal.outputBytes === 0);
  if (beginsAnew || (await sizeOf(output)) <= journal.outputBytes) return 0;
  let lines = 0;
  for await (const { number } of readLines(output, journal.outputBytes)) lines = number;
  return lines;
}

/** How each line begins of failures whose name does not say whose they are. */
function markOf(owner: string): string {
  return `{"output":${JSON.stringify(owner)},`;
}

async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(() => undefined))?.size ?? 0;
}

/** Documents that may wait for the disk before no more are read. */
const MOST_WAITING = 256;

/**
 * Writes results and failures, and tells the journal when they are in their files, in the same order: what stands behind the last length that
 * the journal knows was written by a process that was killed, and is written again.
 */
export class RunOutput {
  readonly #output: LineFile;
  readonly #failures: LineFile;
  readonly #owner: { readonly output?: string };
  readonly #journal: RunJournal;
  readonly #onFailure: (error: unknown) => void;
  readonly #standing: { readonly output: Standing; readonly failures: Standing };
  #numbered: number;
  #waiting = 0;
  #last: Promise<void> = Promise.resolve();

  private constructor(
    output: LineFile,
    failures: LineFile,
    owner: string | undefined,
    numbered: number,
    standing: { readonly output: Standing; readonly failures: Standing },
    journal: RunJournal,
    onFailure: (error: unknown) => void,
  ) {
    this.#output = output;
    this.#failures = failures;
    this.#owner = owner === undefined ? {} : { output: owner };
    this.#numbered = numbered;
    this.#standing = standing;
    this.#journal = journal;
    this.#onFailure = onFailure;
  }

  /**
   * @param onFailure told when something could not be written: nothing more will be.
   * @throws CliError (exit code 4) when a file cannot be written.
   */
  static async open({ output, failures }: OutputPaths, journal: RunJournal, onFailure: (error: unknown) => void): Promise<RunOutput> {
    const results = await LineFile.open(output, `the output \`${output}\``, journal.outputBytes);
    try {
      const failed = await LineFile.open(failures, `the failures \`${failures}\``, journal.failuresBytes);
      const standing = {
        output: await Standing.in(output, journal.gaps, (gap) => gap.output),
        failures: await Standing.in(failures, journal.gaps, (gap) => gap.failures),
      };
      const owner = ownerOf({ output, failures });
      return new RunOutput(results, failed, owner, await countLines(failures), standing, journal, onFailure);
    } catch (error) {
      await results.close();
      throw error;
    }
  }

  /** Resolves when there is room for another document. */
  async room(): Promise<void> {
    if (this.#waiting > MOST_WAITING) await this.#last;
  }

  /** @returns what of it is written: what stands there already is not. */
  write({ documentId, status, ...lines }: FinishedDocument): Pick<FinishedDocument, 'output' | 'failures'> {
    const output = this.#standing.output.missing(lines.output, documentId);
    const failures = this.#standing.failures.missing(lines.failures, documentId);
    try {
      const numbered = failures.map((failure, i) => ({ ...this.#owner, failure: this.#numbered + i + 1, ...failure }));
      this.#numbered += failures.length;
      const written = Promise.all([append(this.#output, output), append(this.#failures, numbered)]);
      written.catch(() => undefined);
      const end = { documentId, status, outputBytes: this.#output.length, failuresBytes: this.#failures.length };
      this.#waiting += 1;
      this.#last = this.#last
        .then(() => written)
        .then(() => {
          this.#waiting -= 1;
          this.#journal.end(end).catch(this.#onFailure);
        })
        .catch(this.#onFailure);
    } catch (error) {
      this.#onFailure(error);
    }
    return { output, failures };
  }

  /** Waits until everything is on disk. @throws CliError (exit code 4) when something could not be written. */
  async close(): Promise<void> {
    await this.#last;
    const closed = await Promise.allSettled([this.#output.close(), this.#failures.close()]);
    for (const file of closed) if (file.status === 'rejected') throw file.reason;
  }
}

function append(file: LineFile, lines: readonly object[]): Promise<void> | undefined {
  return lines.length === 0 ? undefined : file.append(lines.map((line) => `${visible(JSON.stringify(line))}\n`).join(''));
}

async function countLines(path: string): Promise<number> {
  let lines = 0;
  for await (const { number } of readLines(path)) lines = number;
  return lines;
}
