import type { Distribution } from '../../metrics/histogram.js';
import type { ExitCode } from '../exit.js';
import { formatTime } from '../explain-text.js';
import { counted, formatCount, formatMs } from '../format.js';
import { visibleName } from '../visible.js';
import type { FailureReason } from './failure-reasons.js';
import type { BudgetState, SpentBudget } from './run-budget.js';
import type { RunPlan } from './run-plan.js';

/** What the calls of one stage came to. */
export interface StageSummary {
  readonly stage: string;
  /** Attempts that ended by themselves. */
  readonly calls: number;
  /** Attempts that failed, and answers that were of no use. */
  readonly failures: number;
  /** Those answers alone. */
  readonly unusable: number;
  readonly latencyMs: Distribution;
}

/** What one run did; `--json` prints it as it is. */
export interface RunSummary {
  readonly exitCode: ExitCode;
  /** Why it ended before the input did. */
  readonly stopped: 'interrupted' | 'budget' | undefined;
  readonly output: string;
  readonly failuresFile: string;
  readonly journal: string;
  /** Rows that came through wholly, in part, or not at all in this run; and those that did, or did not, in earlier ones. */
  readonly rows: {
    readonly ok: number;
    readonly partial: number;
    readonly failed: number;
    readonly earlier: number;
    readonly earlierFailed: number;
  };
  /** Items in the output and in the failures, of this run. */
  readonly results: { readonly written: number; readonly failed: number };
  /** Calls that were sent, tried again, and answers taken from the journal instead. */
  readonly calls: number;
  readonly retries: number;
  readonly recalled: number;
  /** Answers of equal requests, of this run or an earlier one. */
  readonly cached: number;
  /** How often a row, or an item of it, became several, and how many. */
  readonly expanded: number;
  readonly expandedInto: number;
  readonly rowsPerSecond: number;
  /** Items written. */
  readonly resultsPerMinute: number;
  readonly callsPerMinute: number;
  readonly tokensPerMinute: number;
  /** Rows in progress on average, as a share of those that may be. */
  readonly meanFill: number;
  /** Rows that may be in progress at a time. */
  readonly rowConcurrency: number;
  readonly stages: readonly StageSummary[];
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Of how many answers those are estimates: they did not say what they took. */
  readonly estimatedCalls: number;
  /** What answers have cost. Undefined, as the next two, where a model has no price. */
  readonly costUsd: number | undefined;
  /** Of that: of answers that do not say what they took, by the length of their texts. */
  readonly estimatedUsd: number | undefined;
  /** The most that calls may have cost that failed or were cut off. A limit counts it as spent. */
  readonly failedUsd: number | undefined;
  /** The limits, counted over all runs. */
  readonly budget: readonly BudgetState[];
  /** The limit that has stopped the run. */
  readonly spent: SpentBudget | undefined;
  /** The three most frequent reasons of failures, and how many failures had others. */
  readonly reasons: readonly FailureReason[];
  readonly otherReasons: number;
  readonly notes: readonly string[];
  readonly durationMs: number;
}

/** The stages that call a model, in the order of the configuration. */
export function inOrder(summaries: readonly StageSummary[], stages: RunPlan['stages']): StageSummary[] {
  return stages.flatMap(({ name, chunk }) => (chunk === undefined && summaries.find(({ stage }) => stage === name)) || []);
}

/** What a run did, for people. */
export function runSummaryText(summary: RunSummary): string {
  const {
    rows,
    results,
    calls,
    retries,
    recalled,
    cached,
    expanded,
    expandedInto,
    stages,
    promptTokens,
    completionTokens,
    estimatedCalls,
  } = summary;
  const byEstimate = estimatedCalls === 0 ? '' : `, estimated for ${counted(estimatedCalls, 'call')} without a \`usage\``;
  const known = [
    ...(recalled === 0 ? [] : [`, ${counted(recalled, 'answer')} from the journal`]),
    ...(cached === 0 ? [] : [`, ${counted(cached, 'answer')} from the cache`]),
  ].join('');
  return [
    ...summary.notes.map((note) => `note: ${visibleName(note)}`),
    `rows: ${formatCount(rows.ok)} done, ${formatCount(rows.partial)} partly done, ${formatCount(rows.failed)} failed, ${formatCount(rows.earlier)} done and ${formatCount(rows.earlierFailed)} failed in earlier runs; results: ${formatCount(results.written)} written, ${formatCount(results.failed)} failed`,
    ...reasonLines(summary),
    `throughput: ${perSecond(summary.rowsPerSecond)} rows per second; per minute: ${counted(summary.resultsPerMinute, 'result')}, ${counted(summary.callsPerMinute, 'call')}, ${counted(summary.tokensPerMinute, 'token')}; rows in progress on average: ${String(Number((summary.meanFill * summary.rowConcurrency).toFixed(1)))} of ${formatCount(summary.rowConcurrency)}`,
    ...stages.map(stageLine),
    `calls: ${formatCount(calls)}, retries: ${formatCount(retries)}${expanded === 0 ? '' : `, ${formatCount(expanded)} split into ${counted(expandedInto, 'item')}`}${known}`,
    `tokens: ${formatCount(promptTokens)} sent, ${formatCount(completionTokens)} received${byEstimate}`,
    `cost: ${costText(summary)}`,
    ...summary.budget.map(budgetLine),
    `took ${formatMs(summary.durationMs)}`,
    outcome(summary),
  ].join('\n');
}

/** With a cent's hundredth: single calls cost less than a cent. */
export function formatUsd(usd: number | undefined): string {
  if (usd === undefined) return 'unknown (no `prices`)';
  // Two digits that count.
  const digits = usd <= 0 || usd >= 0.001 ? 4 : Math.min(9, 1 - Math.floor(Math.log10(usd)));
  return `${usd.toFixed(digits)} USD`;
}

function costText({ costUsd, estimatedUsd = 0, failedUsd = 0 }: RunSummary): string {
  const estimated = estimatedUsd === 0 ? '' : `, ${formatUsd(estimatedUsd)} of it by estimate`;
  const failed = failedUsd === 0 ? '' : `; failed calls may have cost up to ${formatUsd(failedUsd)} more`;
  return `${formatUsd(costUsd)}${estimated}${failed}`;
}

function reasonLines({ reasons, otherReasons }: RunSummary): string[] {
  if (reasons.length === 0) return [];
  const others = otherReasons === 0 ? [] : [`  ${formatCount(otherReasons)} x other reasons`];
  return [
    'why rows or items failed:',
    ...reasons.map(({ reason, count }) => `  ${formatCount(count)} x ${visibleName(reason)}`),
    ...others,
  ];
}

function budgetLine({ name, unit, limit, spent, left, windowMs }: BudgetState): string {
  const where = windowMs === undefined ? 'in all runs' : `within ${formatTime(windowMs)}, by all runs`;
  const [spentText, limitText, leftText] = [spent, limit, left].map((amount) => amountText(amount, unit)) as [string, string, string];
  return `limit \`${name}\`: ${spentText} of ${limitText} spent ${where}, ${leftText} left`;
}

export function amountText(amount: number, unit: SpentBudget['unit']): string {
  return unit === 'usd' ? formatUsd(amount) : `${formatCount(amount)} tokens`;
}

function stageLine({ stage, calls, failures, unusable, latencyMs: { p50, p95, p99 } }: StageSummary): string {
  const answers = unusable === 0 ? '' : ` (${counted(unusable, 'unusable answer')})`;
  return `${stage}: ${counted(calls, 'call')}, ${formatCount(failures)} failed${answers}; p50 ${formatMs(p50)}, p95 ${formatMs(p95)}, p99 ${formatMs(p99)}`;
}

function perSecond(rate: number): string {
  return rate < 10 ? rate.toFixed(2) : formatCount(rate);
}

function outcome({ stopped, spent, output, failuresFile, journal, results, rows, exitCode }: RunSummary): string {
  if (stopped === 'interrupted') return `interrupted: what is done is kept in ${journal}, run the same command again to continue`;
  if (spent !== undefined) {
    const [left, asked] = [spent.left, spent.asked].map((amount) => amountText(amount, spent.unit)) as [string, string];
    const repair = spent.resetsInMs === undefined ? 'raise it' : `wait ${formatTime(spent.resetsInMs)} or raise it`;
    return `stopped by the limit \`${spent.name}\`: ${left} left, and the next call may cost ${asked}; what is done is kept in ${journal}, ${repair} and run the same command again to continue`;
  }
  const nothing = rows.ok + rows.partial + rows.failed === 0 && rows.earlier + rows.earlierFailed > 0;
  const wrote = nothing
    ? `nothing left to do: ${output} has the results of earlier runs`
    : `wrote ${output}: ${counted(results.written, 'result')} of this run`;
  if (exitCode === 0) return wrote;
  const failed = rows.failed + rows.partial + rows.earlierFailed;
  const [are, them] = failed === 1 ? ['is', 'it'] : ['are', 'them'];
  return `${wrote}; ${counted(failed, 'row')} ${are} in ${failuresFile}, take ${them} up again with --retry-failed`;
}
