import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Observable } from 'rxjs';
import { onAbort } from '../../../operators/build.js';
import type { BudgetExceededError, FlowEvent, Limiter } from '../../../operators/index.js';
import { createAccount, isFlowError } from '../../../operators/index.js';
import { ledgerOf } from '../../account/ledger.js';
import { batchRules } from '../../edge/config/stages-options.js';
import { onDisk } from '../../journal/file-error.js';
import type { LineFile } from '../../journal/line-file.js';
import type { CallRecord } from '../../metrics/call-record.js';
import type { Budget } from '../../pipelines/create-budget.js';
import { createStages } from '../../pipelines/create-stages.js';
import type { DocumentResult, JournalEntry, StageItem, StageJournal, Stages } from '../../pipelines/stages/stages-types.js';
import { EXIT, type ExitCode } from '../exit.js';
import { counted } from '../format.js';
import { OWN_FOLDER_MODE } from '../own-file.js';
import { classifyWhile } from '../provider.js';
import { AnswerCache } from './answer-cache.js';
import { readState } from './check-run.js';
import { InFlight } from './in-flight.js';
import { ListLengths } from './list-lengths.js';
import { openRows } from './open-rows.js';
import { type FieldPlaceholder, fieldPlaceholders, lackOfRow } from './placeholders.js';
import type { BadRow, Row, RowSource } from './row.js';
import { budgetStates, isLimited, isPriced, openBudget, spentBudget } from './run-budget.js';
import { RunCost } from './run-cost.js';
import { Doubts } from './run-doubts.js';
import { faultOf } from './run-faults.js';
import { openEvents, shownCache, takeLocks } from './run-files.js';
import type { RunJournal } from './run-journal.js';
import { cutNote, skippedNote } from './run-notes.js';
import { outcomeOf } from './run-outcome.js';
import { type FailureLine, type FinishedDocument, keepOutput, RunOutput, unknownLines } from './run-output.js';
import type { RunPlan } from './run-plan.js';
import { type Progress, progressOf } from './run-progress.js';
import { type RunDocument, type StageHost, stagesOf } from './run-stages.js';
import { inOrder, type RunSummary } from './run-summary.js';
import { RunTally } from './run-tally.js';
import { levelsOf, type RunView } from './run-view.js';
import { changeNote } from './stage-change.js';

export interface RunJobOptions {
  readonly plan: RunPlan;
  /** Most rows that are taken up. @defaultValue Infinity */
  readonly limit: number;
  /** Most USD that all runs on this journal may spend together. */
  readonly maxUsd: number | undefined;
  readonly retryFailed: boolean;
  /** Where events go; absolute. */
  readonly events: { readonly path: string; readonly shown: string } | undefined;
}

export interface RunJobSignals {
  /** Ends gently: nothing new is sent, what is under way is waited for and kept. */
  readonly stop: AbortSignal;
  /** Ends at once. */
  readonly abort: AbortSignal;
}

/** Takes every row through the stages. Draws nothing: `view()` says what is going on, `run()` resolves to the summary. */
export class RunJob implements StageHost {
  readonly #options: RunJobOptions;
  readonly #plan: RunPlan;
  readonly #signals: RunJobSignals;
  readonly #startedAtMs = performance.now();
  readonly #tally: RunTally;
  readonly #placeholders: readonly FieldPlaceholder[];
  readonly #notes: string[] = [];
  readonly #inFlight = new InFlight();
  readonly #lengths: ListLengths;
  /** Ends the run early from inside: a full disk, a refused key. */
  readonly #failure = new AbortController();
  /** Ends the run gently from inside. */
  readonly #spent = new AbortController();
  /** What the budget had no room for. */
  #refusal: BudgetExceededError | undefined;
  readonly cost = new RunCost();
  readonly #stop: AbortSignal;
  #phase: RunView['phase'] = 'reading the journal';
  #source: RowSource | undefined;
  #stages: Stages<RunDocument, unknown> | undefined;
  #output: RunOutput | undefined;
  #budget: Budget | undefined;
  readonly #doubts = new Doubts((outcome) => {
    this.#write(outcome);
  });
  #limiter: Limiter | undefined;
  #journal: RunJournal | undefined;
  #hasBegun = false;
  #read = 0;
  #isRead = false;
  #taken = 0;
  /** Documents in progress that have answers of an earlier run. */
  readonly #resumed = new Set<string>();

  constructor(options: RunJobOptions, signals: RunJobSignals) {
    this.#options = options;
    this.#plan = options.plan;
    this.#signals = signals;
    this.#lengths = new ListLengths(options.plan.stages);
    this.#tally = new RunTally(this.#startedAtMs);
    this.#placeholders = fieldPlaceholders(options.plan.stages);
    this.#stop = AbortSignal.any([signals.stop, this.#spent.signal]);
  }

  view(): RunView {
    const nowMs = performance.now();
    const { rows, retries, expanded, reasons } = this.#tally;
    const pace = this.#tally.look(nowMs);
    return {
      phase: this.isStopping && this.#phase === 'running' ? 'stopping' : this.#phase,
      progress: this.#progress(this.#phase === 'running' ? pace.rowsPerMinute : 0),
      failed: rows.failed,
      earlier: rows.earlier + rows.earlierFailed,
      levels: this.#stages === undefined ? [] : levelsOf(this.#stages),
      ...pace,
      retries,
      expanded,
      costUsd: this.#usd(this.cost.costUsd),
      pausedForMs: this.#limiter?.snapshot().pausedForMs ?? 0,
      lastFailure: reasons.last,
    };
  }

  /** What a run that has failed leaves for the next one; undefined when it had not begun. */
  get kept(): string | undefined {
    if (!this.#hasBegun) return undefined;
    const { ok, partial } = this.#tally.rows;
    return `${counted(ok + partial, 'row')} of this run in \`${this.#plan.shownOutput}\`, and all answers so far in \`${this.#plan.shownOutput}.journal\``;
  }

  /** @throws CliError when the run cannot be finished; what was answered stays in the journal. */
  async run(): Promise<RunSummary> {
    const { paths, shownOutput, input } = this.#plan;
    this.#source = await openRows(input);
    for (const [path, shown] of [
      [paths.output, shownOutput],
      [paths.failures, this.#plan.shownFailures],
    ] as const)
      await onDisk(`create the folder of \`${shown}\``, () => mkdir(dirname(path), { recursive: true, mode: OWN_FOLDER_MODE }));
    const release = await takeLocks(paths);
    try {
      const journal = await readState(this.#plan, this.#options);
      this.#journal = journal;
      if (isLimited(this.#plan, this.#options.maxUsd) && journal.hasAnswers && !existsSync(paths.budget))
        this.#notes.push('what earlier runs have spent is not known and not counted: they had neither `prices` nor a `budget`');
      const cut = await unknownLines(paths, journal);
      if (cut > 0) this.#notes.push(cutNote(cut, shownOutput));
      if (journal.damagedLines > 0) this.#notes.push(skippedNote(journal.damagedLines, 'journal'));
      const events = await openEvents(this.#options.events);
      const cache = await this.#openCache();
      if (journal.change !== undefined) {
        this.#notes.push(changeNote(journal.change, shownOutput));
        await keepOutput(paths, shownOutput);
      }
      try {
        await journal.begin();
        this.#hasBegun = true;
        const output = await RunOutput.open(paths, journal, this.#fail);
        this.#output = output;
        await closing(output, () => this.#work(journal, output, events, cache));
      } finally {
        await closing(journal, async () => {
          await Promise.all([events?.close(), cache?.close()]);
        });
      }
      return this.#summary();
    } finally {
      await release();
    }
  }

  // ---- what the stages ask --------------------------------------------------------------------------------------------

  get isStopping(): boolean {
    return this.#stop.aborted;
  }

  get isCharged(): boolean {
    return this.#budget !== undefined;
  }

  get hasRoom(): boolean {
    return this.#inFlight.hasRoom;
  }

  room(): Observable<unknown> {
    return this.#inFlight.room();
  }

  sent(item: StageItem<RunDocument>): void {
    this.#inFlight.add(item);
  }

  estimated(): void {
    this.#tally.estimatedCalls += 1;
  }

  failed(item: StageItem<RunDocument>): void {
    this.#settled(item);
  }

  unusable(stage: string): void {
    this.#tally.unusable(stage);
  }

  cached(): void {
    this.#tally.cached += 1;
  }

  goesOn(item: StageItem<RunDocument>): void {
    this.#settled(item);
  }

  gaveUp(item: StageItem<RunDocument>, model: string, error: unknown): boolean {
    // The user has aborted it: that says nothing about the provider.
    if (this.#signals.abort.aborted) return true;
    const fault = faultOf(this.#plan, this.#doubts, item, model, error);
    if (fault?.kind === 'spent') {
      this.#refusal ??= fault.refusal;
      this.#spent.abort();
    } else if (fault) this.#fail(fault.error);
    return fault !== undefined;
  }

  expanded(items: number): void {
    this.#tally.expanded += 1;
    this.#tally.expandedInto += items;
  }

  // ---- the work -------------------------------------------------------------------------------------------------------

  async #work(journal: RunJournal, output: RunOutput, events: LineFile | undefined, cache: AnswerCache | undefined): Promise<void> {
    this.#budget = openBudget(this.#plan, this.#options.maxUsd);
    const { batches, limits, lane, name } = this.#plan.config;
    const onEvent = (event: FlowEvent): void => {
      this.#tally.observe(event);
      try {
        events?.append(`${JSON.stringify({ ...{ type: event.type }, ...event })}\n`).catch(this.#fail);
      } catch (error) {
        this.#fail(error);
      }
    };
    const limiter = createAccount({ ...limits, onEvent });
    this.#limiter = limiter;
    this.#inFlight.most = limiter.concurrency;
    const onRecord = (record: CallRecord): void => {
      if (record.status === 'success') this.#doubts.answered(record.model);
      this.#tally.record(record);
    };
    const ledger = ledgerOf(limiter).with({ budget: this.#budget, onRecord });
    const stages = createStages(stagesOf(this.#plan, ledger, this, cache), {
      limiter,
      ...(lane !== undefined && { lane }),
      ...(batches && { batches: batchRules<RunDocument>(batches, ({ fields }, field) => fields[field]) }),
      ...(name !== undefined && { name }),
      id: ({ documentId }: RunDocument) => documentId,
      journal: this.#kept(journal),
      classify: (error, context) => {
        if (isFlowError(error, 'FLOW_BUDGET_EXCEEDED')) this.#tally.unsent();
        return classifyWhile(this.#doubts.hasAnswer, error, context);
      },
      onEvent,
    });
    this.#stages = stages;
    try {
      this.#phase = 'running';
      await this.#take(stages, journal, output);
    } finally {
      stages.close();
      this.#phase = 'writing';
    }
    if (this.#failure.signal.aborted) throw this.#failure.signal.reason;
  }

  #take(stages: Stages<RunDocument, unknown>, journal: RunJournal, output: RunOutput): Promise<void> {
    return new Promise((resolve, reject) => {
      const results = stages.run(this.#documents(journal, output)).subscribe({
        next: (result) => {
          if (result.type === 'document') this.#finish(result, journal);
          else if (result.status === 'rejected') this.#settled(result);
        },
        error: reject,
        complete: () => {
          if (!this.isStopping && !this.#failure.signal.aborted) this.#doubts.end();
          resolve();
        },
      });
      onAbort(AbortSignal.any([this.#signals.abort, this.#failure.signal]), () => {
        results.unsubscribe();
        resolve();
      });
      onAbort(this.#stop, () => {
        this.#closeWhenIdle();
      });
    });
  }

  async *#documents(journal: RunJournal, output: RunOutput): AsyncGenerator<RunDocument, void, undefined> {
    const source = this.#source as RowSource;
    for await (const row of source.rows()) {
      if (this.isStopping || this.#taken >= this.#options.limit) return;
      this.#read += 1;
      const known = journal.endOf(row);
      if (known !== undefined) {
        this.#tally.rows[known] += 1;
        continue;
      }
      if (this.#taken === 0) this.#tally.begin(performance.now());
      this.#taken += 1;
      const documentId = journal.nameOf(row);
      const lack = 'problem' in row ? { error: row.problem } : lackOfRow(this.#placeholders, row.fields);
      if (lack !== undefined) this.#refuse(row, documentId, lack);
      else if ('fields' in row) yield { ...row, documentId, hasFailed: journal.hasFailed(documentId), startedAtMs: performance.now() };
      await output.room();
    }
    this.#isRead = true;
  }

  /** A row that is none, or lacks a field that a stage names: nothing is sent for it. */
  #refuse({ id, number: row }: Row | BadRow, documentId: string, lack: Pick<FailureLine, 'stage' | 'error'>): void {
    this.#write({ documentId, status: 'failed', output: [], failures: [{ id, row, ...lack }] });
  }

  #finish(result: DocumentResult<RunDocument, unknown>, journal: RunJournal): void {
    const { document, documentId } = result;
    this.#tally.busyMs += performance.now() - document.startedAtMs;
    if (!this.#resumed.delete(documentId)) this.#tally.finished += 1;
    const outcome = outcomeOf(result, (stage, item) => journal.isWritten(documentId, stage, item), this.isStopping, this.#plan.shown.hide);
    // Its answers are in the journal; the next run goes on with them.
    if (outcome !== undefined) this.#doubts.finished(outcome);
  }

  #write(outcome: FinishedDocument): void {
    const { output, failures } = (this.#output as RunOutput).write(outcome);
    this.#tally.rows[outcome.status] += 1;
    this.#tally.items.written += output.length;
    this.#tally.items.failed += failures.length;
    for (const { error } of failures) this.#tally.reasons.add(error);
  }

  /** Counts what was known, and knows what is safe. */
  #kept(journal: RunJournal): StageJournal {
    return {
      recall: async (documentId) => {
        const known = await journal.recall(documentId);
        this.#tally.recalled += known.length;
        if (known.length > 0) this.#resumed.add(documentId);
        return known;
      },
      append: async (entry: JournalEntry) => {
        await journal.append(entry);
        this.#lengths.add(entry);
        this.#settled(entry);
      },
    };
  }

  #settled(item: { readonly documentId: string; readonly item: string; readonly stage: string }): void {
    this.#inFlight.delete(item);
    if (this.isStopping) this.#closeWhenIdle();
  }

  /** A little later: rows whose last answer has just come are whole then. */
  #closeWhenIdle(): void {
    if (!this.#inFlight.isEmpty) return;
    setImmediate(() => {
      if (this.#inFlight.isEmpty) this.#stages?.close();
    });
  }

  readonly #fail = (error: unknown): void => {
    this.#failure.abort(error);
  };

  // ---- beginning and end ----------------------------------------------------------------------------------------------

  async #openCache(): Promise<AnswerCache | undefined> {
    const { paths, config } = this.#plan;
    if (paths.cache === undefined) return undefined;
    const cache = await AnswerCache.open(paths.cache, shownCache(config) ?? paths.cache);
    if (cache.damagedLines > 0) this.#notes.push(skippedNote(cache.damagedLines, 'cache'));
    return cache;
  }

  #progress(rowsPerMinute: number): Progress {
    const { ok, partial, failed, earlier, earlierFailed } = this.#tally.rows;
    const [share, count] = [this.#source?.share() ?? 0, this.#source?.count];
    return progressOf({
      ...{ read: this.#read, share, isRead: this.#isRead, count },
      ...{ earlier: earlier + earlierFailed, earlierToCome: this.#journal?.rowsToCome ?? 0 },
      ...{ taken: this.#taken, finished: ok + partial + failed, limit: this.#options.limit, rowsPerMinute },
    });
  }

  /** Undefined where a model has no price. */
  #usd(amount: number): number | undefined {
    return isPriced(this.#plan) ? amount : undefined;
  }

  #summary(): RunSummary {
    const { shownOutput, stages } = this.#plan;
    const tally = this.#tally;
    const nowMs = performance.now();
    const durationMs = nowMs - this.#startedAtMs;
    const { ok, partial, failed, earlierFailed } = tally.rows;
    const { attempts: calls, ...sums } = tally.totals(nowMs);
    const { costUsd, estimatedUsd, failedUsd } = this.cost;
    const rowConcurrency = this.#stages?.snapshot().documents.concurrency ?? 1;
    const limits = this.#budget === undefined ? [] : budgetStates(this.#budget, this.#options.maxUsd);
    const stopped = this.#signals.stop.aborted ? 'interrupted' : this.#spent.signal.aborted ? 'budget' : undefined;
    const exits = { interrupted: EXIT.interrupted, budget: EXIT.budget } as const;
    const exitCode: ExitCode = stopped === undefined ? (failed + partial + earlierFailed > 0 ? EXIT.incomplete : EXIT.ok) : exits[stopped];
    return {
      exitCode,
      stopped,
      output: shownOutput,
      failuresFile: this.#plan.shownFailures,
      journal: `${shownOutput}.journal`,
      rows: { ...tally.rows },
      results: { ...tally.items },
      calls,
      retries: tally.retries,
      recalled: tally.recalled,
      cached: tally.cached,
      expanded: tally.expanded,
      expandedInto: tally.expandedInto,
      rowsPerSecond: ((ok + partial + failed) / durationMs) * 1000,
      ...sums,
      meanFill: tally.busyMs / (durationMs * rowConcurrency),
      rowConcurrency,
      stages: inOrder(tally.stages(), stages),
      estimatedCalls: tally.estimatedCalls,
      costUsd: this.#usd(costUsd),
      estimatedUsd: this.#usd(estimatedUsd),
      failedUsd: this.#usd(failedUsd),
      budget: limits,
      spent: this.#refusal && spentBudget(this.#refusal, limits),
      ...tally.reasons.snapshot(),
      notes: [...this.#notes, ...(this.#isRead && this.#read === 0 ? ['the input has no rows'] : []), ...this.#lengths.notes()],
      durationMs,
    };
  }
}

async function closing(file: { close(): Promise<void> }, work: () => Promise<void> | undefined): Promise<void> {
  try {
    await work();
  } finally {
    await file.close();
  }
}
