import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { first, type Observable, Subject, startWith } from 'rxjs';
import { createAccount } from '../../../operators/create-account.js';
import { isFlowError } from '../../../operators/errors.js';
import { onAbort } from '../../../operators/toolkit.js';
import type { FlowEvent } from '../../../operators/types.js';
import { ledgerOf } from '../../account/ledger.js';
import type { Config } from '../../edge/config/schema.js';
import { type Budget, type BudgetLimit, createBudget } from '../../pipelines/create-budget.js';
import { createStages } from '../../pipelines/create-stages.js';
import type { BatchRules, DocumentResult, JournalEntry, StageItem, StageJournal, Stages } from '../../pipelines/stages/stages-types.js';
import { budgetFile } from '../budget-file.js';
import { CliError, EXIT, type ExitCode, onDisk } from '../exit.js';
import { LineFile } from '../line-file.js';
import { takeLock } from '../lock.js';
import { OWN_FOLDER_MODE, refuseForeignFile } from '../own-file.js';
import { classifyWhile, explainFailure, type ProviderWords } from '../provider.js';
import { openRows } from './open-rows.js';
import type { BadRow, RowSource } from './row.js';
import { Doubts, mayBeOfRow } from './run-doubts.js';
import type { RunPaths } from './run-files.js';
import { RunJournal } from './run-journal.js';
import { outcomeOf } from './run-outcome.js';
import { checkOutput, type FinishedDocument, RunOutput } from './run-output.js';
import { priceOfModel, type RunPlan } from './run-plan.js';
import { openCaller, type RunCaller, type RunDocument, type StageHost, stagesOf } from './run-stages.js';
import type { RunSummary, StageSummary } from './run-summary.js';
import { RunTally } from './run-tally.js';
import type { LevelView, RunView } from './run-view.js';

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

/** A model that has let so many calls down, and has answered none, will let down all others. */
const MOST_UNANSWERED = 10;

/** More than anybody spends, and all that a budget can count. */
const MOST_USD = 9_000_000;
const MOST_TOKENS = Number.MAX_SAFE_INTEGER;

/** How every line of an events file begins. */
const EVENT_MARK = '{"type":"';

/** Takes every row through the stages. Draws nothing: `view()` says what is going on, `run()` resolves to the summary. */
export class RunJob implements StageHost {
  readonly #options: RunJobOptions;
  readonly #plan: RunPlan;
  readonly #signals: RunJobSignals;
  readonly #startedAtMs = performance.now();
  readonly #tally: RunTally;
  readonly #notes: string[] = [];
  /** What was sent and is not in the journal, how much that may be, and that it has become less. */
  readonly #inFlight = new Set<string>();
  #mostInFlight = Infinity;
  readonly #landed = new Subject<void>();
  /** Ends the run early from inside: a full disk, a refused key. */
  readonly #failure = new AbortController();
  /** Ends the run gently from inside. */
  readonly #spent = new AbortController();
  readonly #stop: AbortSignal;
  #phase: RunView['phase'] = 'reading the journal';
  #source: RowSource | undefined;
  #stages: Stages<RunDocument, unknown> | undefined;
  #output: RunOutput | undefined;
  #budget: Budget | undefined;
  readonly #doubts = new Doubts((outcome) => {
    this.#write(outcome);
  });
  #taken = 0;
  /** How much of the input earlier runs were through with. */
  #shareBefore = 0;
  #firstTakenAtMs: number | undefined;

  constructor(options: RunJobOptions, signals: RunJobSignals) {
    this.#options = options;
    this.#plan = options.plan;
    this.#signals = signals;
    this.#tally = new RunTally(this.#startedAtMs);
    this.#stop = AbortSignal.any([signals.stop, this.#spent.signal]);
  }

  view(): RunView {
    const nowMs = performance.now();
    const { rows, retries, splits } = this.#tally;
    const { callsPerMinute, tokensPerMinute } = this.#tally.look();
    const share = this.#source?.share() ?? 0;
    return {
      phase: this.isStopping && this.#phase === 'running' ? 'stopping' : this.#phase,
      share,
      rows: { done: rows.ok + rows.partial, failed: rows.failed, earlier: rows.earlier + rows.earlierFailed },
      etaMs: this.#etaMs(share, nowMs),
      levels: this.#stages === undefined ? [] : levelsOf(this.#stages),
      callsPerMinute,
      tokensPerMinute,
      retries,
      splits,
      costUsd: this.#costUsd,
    };
  }

  /** @throws CliError when the run cannot be finished; what was answered stays in the journal. */
  async run(): Promise<RunSummary> {
    const { paths, shownOutput, input, work } = this.#plan;
    this.#source = await openRows(input);
    for (const [path, shown] of [
      [paths.output, shownOutput],
      [paths.failures, this.#shownFailures],
    ] as const)
      await onDisk(`create the folder of \`${shown}\``, () => mkdir(dirname(path), { recursive: true, mode: OWN_FOLDER_MODE }));
    const release = await takeLocks(paths);
    try {
      const { retryFailed } = this.#options;
      const journal = await RunJournal.read({ path: paths.journal, shown: `${shownOutput}.journal`, work, retryFailed });
      await checkOutput(paths, shownOutput, journal);
      if (this.#isLimited && journal.hasAnswers && !existsSync(paths.budget))
        this.#notes.push('what earlier runs have spent is not known and not counted: they had neither `prices` nor a `budget`');
      if (journal.damagedLines > 0) this.#notes.push(`${String(journal.damagedLines)} damaged lines of the journal were skipped`);
      const events = await this.#openEvents();
      try {
        await journal.begin();
        const output = await RunOutput.open(paths, journal, this.#fail);
        this.#output = output;
        await closing(output, () => this.#work(journal, output, events));
      } finally {
        await closing(journal, () => events?.close());
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

  room(): Observable<unknown> {
    return this.#landed.pipe(
      startWith(undefined),
      first(() => this.#inFlight.size < this.#mostInFlight),
    );
  }

  sent(item: StageItem<RunDocument>): void {
    this.#inFlight.add(nameOf(item));
  }

  failed(item: StageItem<RunDocument>): void {
    this.#settled(item);
  }

  gaveUp({ document, documentId }: StageItem<RunDocument>, model: string, error: unknown): boolean {
    if (isFlowError(error, 'FLOW_BUDGET_EXCEEDED')) {
      this.#spent.abort();
      return true;
    }
    if (error instanceof CliError) {
      this.#fail(error);
      return true;
    }
    const { shown } = this.#plan;
    const words = this.#words();
    const failure = explainFailure(error, { shown, model }, words);
    if (failure.kind === 'stop' && !mayBeOfRow(error)) this.#fail(failure.error);
    else if (failure.kind === 'poisoned' || document.hasFailed) return false;
    else if (this.#doubts.gaveUp(model, documentId) < MOST_UNANSWERED) return false;
    else if (failure.kind === 'stop') this.#fail(failure.error);
    else
      this.#fail(
        new CliError(
          EXIT.provider,
          `${shown.address} has answered nothing of use with \`${model}\` so far: ${failure.reason}. Check ${words.options}`,
          error,
        ),
      );
    return true;
  }

  expanded(items: number): void {
    this.#tally.splits += 1;
    this.#tally.splitInto += items;
  }

  // ---- the work -------------------------------------------------------------------------------------------------------

  async #work(journal: RunJournal, output: RunOutput, events: LineFile | undefined): Promise<void> {
    this.#budget = this.#openBudget();
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
    const ledger = ledgerOf(limiter);
    const caller = openCaller(this.#plan, {
      ledger,
      budget: this.#budget,
      onRecord: (record) => {
        if (record.status === 'success') this.#doubts.answered(record.model);
        this.#tally.record(record);
      },
      onEstimate: () => {
        this.#tally.estimatedCalls += 1;
      },
    });
    this.#mostInFlight = limiter.concurrency;
    const stages = createStages({
      stages: stagesOf(this.#plan, caller, ledger, this),
      limiter,
      ...(lane !== undefined && { lane }),
      ...(batches && { batches: batchesOf(batches) }),
      ...(name !== undefined && { name }),
      id: ({ documentId }: RunDocument) => documentId,
      journal: this.#kept(journal),
      classify: (error, context) => classifyWhile(this.#doubts.hasAnswer, error, context),
      onEvent,
    });
    this.#stages = stages;
    try {
      this.#phase = 'running';
      await this.#take(stages, caller, journal, output);
    } finally {
      stages.close();
      caller.close();
      this.#phase = 'writing';
    }
    if (this.#failure.signal.aborted) throw this.#failure.signal.reason;
  }

  #take(stages: Stages<RunDocument, unknown>, caller: RunCaller, journal: RunJournal, output: RunOutput): Promise<void> {
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
      const known = journal.endOf(row);
      if (known !== undefined) {
        this.#tally.rows[known] += 1;
        continue;
      }
      if (this.#firstTakenAtMs === undefined) {
        this.#firstTakenAtMs = performance.now();
        this.#shareBefore = source.share();
      }
      this.#taken += 1;
      const documentId = journal.nameOf(row);
      if ('problem' in row) this.#refuse(row, documentId);
      else yield { ...row, documentId, hasFailed: journal.hasFailed(documentId), startedAtMs: performance.now() };
      await output.room();
    }
  }

  /** A row that is none. */
  #refuse({ id, number: row, problem }: BadRow, documentId: string): void {
    this.#write({ documentId, status: 'failed', output: [], failures: [{ id, row, error: problem }] });
  }

  #finish(result: DocumentResult<RunDocument, unknown>, journal: RunJournal): void {
    const { document, documentId } = result;
    this.#tally.busyMs += performance.now() - document.startedAtMs;
    const outcome = outcomeOf(result, (stage, item) => journal.isWritten(documentId, stage, item), this.isStopping, this.#plan.shown.hide);
    // Its answers are in the journal; the next run goes on with them.
    if (outcome !== undefined) this.#doubts.finished(outcome);
  }

  #write(outcome: FinishedDocument): void {
    const { output, failures } = (this.#output as RunOutput).write(outcome);
    this.#tally.rows[outcome.status] += 1;
    this.#tally.items.written += output.length;
    this.#tally.items.failed += failures.length;
  }

  /** Counts what was known, and knows what is safe. */
  #kept(journal: RunJournal): StageJournal {
    return {
      recall: async (documentId) => {
        const known = await journal.recall(documentId);
        this.#tally.recalled += known.length;
        return known;
      },
      append: async (entry: JournalEntry) => {
        await journal.append(entry);
        this.#settled(entry);
      },
    };
  }

  #settled(item: { readonly documentId: string; readonly item: string; readonly stage: string }): void {
    if (this.#inFlight.delete(nameOf(item))) this.#landed.next();
    if (this.isStopping) this.#closeWhenIdle();
  }

  /** A little later: rows whose last answer has just come are whole then. */
  #closeWhenIdle(): void {
    if (this.#inFlight.size > 0) return;
    setImmediate(() => {
      if (this.#inFlight.size === 0) this.#stages?.close();
    });
  }

  readonly #fail = (error: unknown): void => {
    this.#failure.abort(error);
  };

  // ---- beginning and end ----------------------------------------------------------------------------------------------

  async #openEvents(): Promise<LineFile | undefined> {
    const { events } = this.#options;
    if (events === undefined) return undefined;
    await refuseForeignFile(events.path, events.shown, EVENT_MARK, 'a file of events');
    return LineFile.open(events.path, `the events \`${events.shown}\``, 0);
  }

  /** Counts from the first run on that could: a limit may be given later. */
  #openBudget(): Budget | undefined {
    const { paths, shownOutput, stages, config } = this.#plan;
    const { prices, budget } = config;
    if (prices === undefined && budget === undefined) return undefined;
    const { usd, tokens, windowMs, warnAt } = budget ?? {};
    const inAll = windowMs === undefined ? { usd, tokens } : {};
    const limits: BudgetLimit[] = [{ tokens: inAll.tokens ?? MOST_TOKENS }];
    if (prices) limits.push({ usd: this.#options.maxUsd ?? inAll.usd ?? MOST_USD });
    if (windowMs !== undefined && usd !== undefined) limits.push({ usd, windowMs });
    if (windowMs !== undefined && tokens !== undefined) limits.push({ tokens, windowMs });
    return createBudget({
      limits,
      // Without a limit in USD, a model may have none.
      ...(prices && { prices: { ...Object.fromEntries(stages.map(({ model = '' }) => [model, {}])), ...prices } }),
      ...(warnAt !== undefined && { warnAt }),
      storage: budgetFile(paths.budget, `${shownOutput}.budget`),
    });
  }

  get #isLimited(): boolean {
    const { usd, tokens } = this.#plan.config.budget ?? {};
    return (this.#options.maxUsd ?? usd ?? tokens) !== undefined;
  }

  #words(): ProviderWords {
    const keys = this.#plan.config.model?.apiKeyEnv ?? 'SLUICE_API_KEY or OPENAI_API_KEY';
    return { keys, options: '`model` in the configuration', start: 'is the server running, and `model.baseUrl` its address?' };
  }

  #etaMs(share: number, nowMs: number): number | undefined {
    const gained = share - this.#shareBefore;
    const { ok, partial, failed } = this.#tally.rows;
    if (
      this.#firstTakenAtMs === undefined ||
      gained <= 0 ||
      ok + partial + failed === 0 ||
      this.#phase !== 'running' ||
      this.#options.limit !== Infinity
    )
      return undefined;
    return ((nowMs - this.#firstTakenAtMs) / gained) * (1 - share);
  }

  /** What this run was charged; undefined when a price is not known of all that is asked. */
  get #costUsd(): number | undefined {
    const { config, stages } = this.#plan;
    const isPriced = stages.every(({ prompt, model }) => prompt === undefined || priceOfModel(config, model) !== undefined);
    return isPriced ? (this.#budget?.snapshot().spentUsd ?? 0) : undefined;
  }

  /** What the user calls the failures. */
  get #shownFailures(): string {
    const { config, shownOutput } = this.#plan;
    return config.output?.failures ?? `${shownOutput}.failures.jsonl`;
  }

  #summary(): RunSummary {
    const { shownOutput, stages } = this.#plan;
    const tally = this.#tally;
    const nowMs = performance.now();
    const durationMs = nowMs - this.#startedAtMs;
    const { ok, partial, failed, earlierFailed } = tally.rows;
    const { attempts: calls, ...sums } = tally.totals(nowMs);
    const stopped = this.#signals.stop.aborted ? 'interrupted' : this.#spent.signal.aborted ? 'budget' : undefined;
    const exits = { interrupted: EXIT.interrupted, budget: EXIT.budget } as const;
    const exitCode: ExitCode = stopped === undefined ? (failed + partial + earlierFailed > 0 ? EXIT.incomplete : EXIT.ok) : exits[stopped];
    return {
      exitCode,
      stopped,
      output: shownOutput,
      failuresFile: this.#shownFailures,
      journal: `${shownOutput}.journal`,
      rows: { ...tally.rows },
      items: { ...tally.items },
      calls,
      retries: tally.retries,
      recalled: tally.recalled,
      splits: tally.splits,
      splitInto: tally.splitInto,
      rowsPerSecond: ((ok + partial + failed) / durationMs) * 1000,
      ...sums,
      meanFill: tally.busyMs / (durationMs * (this.#stages?.snapshot().documents.concurrency ?? 1)),
      stages: sorted(tally.stages(), stages),
      estimatedCalls: tally.estimatedCalls,
      costUsd: this.#costUsd,
      notes: this.#notes,
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

function nameOf({ documentId, stage, item }: { readonly documentId: string; readonly stage: string; readonly item: string }): string {
  return `${documentId} ${stage} ${item}`;
}

function batchesOf({ concurrency, scheduling, priority }: NonNullable<Config['batches']>): BatchRules<RunDocument> {
  return {
    ...(concurrency !== undefined && { concurrency }),
    ...(scheduling !== undefined && { scheduling }),
    ...(priority !== undefined && { priority: ({ fields }) => Number(fields[priority]) || 0 }),
  };
}

function levelsOf(pipeline: Stages<RunDocument, unknown>): LevelView[] {
  const { documents, stages, requests } = pipeline.snapshot();
  return [
    { level: 'rows', ...documents },
    ...Object.entries(stages).map(([level, load]) => ({ level, ...load })),
    { level: 'requests', ...requests },
  ];
}

/** In the order of the configuration, those that ask somebody. */
function sorted(summaries: readonly StageSummary[], stages: RunPlan['stages']): StageSummary[] {
  return stages.flatMap(({ name, chunk }) => (chunk === undefined && summaries.find(({ stage }) => stage === name)) || []);
}

async function takeLocks({ lock, failuresLock }: RunPaths): Promise<() => Promise<void>> {
  const release = await takeLock(lock, 'output');
  try {
    const releaseFailures = await takeLock(failuresLock, 'file of failures');
    return () => releaseFailures().finally(release);
  } catch (error) {
    await release();
    throw error;
  }
}
