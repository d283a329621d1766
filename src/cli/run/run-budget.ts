import type { BudgetExceededError } from '../../../operators/index.js';
import { type Budget, type BudgetLimit, createBudget } from '../../pipelines/create-budget.js';
import { budgetFile } from '../budget-file.js';
import { priceOfModel, type RunPlan } from './run-plan.js';

/** More than any run spends, and all that a budget can count. */
const MOST_USD = 9_000_000;
const MOST_TOKENS = Number.MAX_SAFE_INTEGER;

/** What all runs on an output have spent, and may spend. Counts from the first run on that could: a limit may be given later. */
export function openBudget({ paths, shownOutput, stages, config }: RunPlan, maxUsd: number | undefined): Budget | undefined {
  const { prices, budget } = config;
  if (prices === undefined && budget === undefined) return undefined;
  const { usd, tokens, windowMs, warnAt } = budget ?? {};
  const inAll = windowMs === undefined ? { usd, tokens } : {};
  const limits: BudgetLimit[] = [{ tokens: inAll.tokens ?? MOST_TOKENS }];
  if (prices) limits.push({ usd: maxUsd ?? inAll.usd ?? MOST_USD });
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

export function isLimited({ config }: RunPlan, maxUsd: number | undefined): boolean {
  const { usd, tokens } = config.budget ?? {};
  return (maxUsd ?? usd ?? tokens) !== undefined;
}

/** Whether what calls cost is known: each model that is asked has a price. */
export function isPriced({ config, stages }: RunPlan): boolean {
  return stages.every(({ prompt, model }) => prompt === undefined || priceOfModel(config, model) !== undefined);
}

/** One limit, in USD or tokens: what all runs have spent of it, and what is left. */
export interface BudgetState {
  /** How the user has set it: `--max-usd`. */
  readonly name: string;
  readonly unit: 'usd' | 'tokens';
  readonly limit: number;
  readonly spent: number;
  readonly left: number;
  /** Undefined where it holds for ever. */
  readonly windowMs: number | undefined;
}

/** The limits that the user has set. */
export function budgetStates(budget: Budget, maxUsd: number | undefined): BudgetState[] {
  return budget.snapshot().limits.flatMap(({ unit, limit, spent, inFlight, left, windowMs }) => {
    if (limit === (unit === 'usd' ? MOST_USD : MOST_TOKENS)) return [];
    const isForEver = windowMs === Infinity;
    const name = unit === 'usd' && isForEver && maxUsd !== undefined ? '--max-usd' : `budget.${unit}`;
    return [{ name, unit, limit, spent: spent + inFlight, left, windowMs: isForEver ? undefined : windowMs }];
  });
}

/** The limit that has stopped a run, and what the next call may cost. */
export interface SpentBudget extends BudgetState {
  readonly asked: number;
  /** How long until it begins anew; undefined when it never does. */
  readonly resetsInMs: number | undefined;
}

/** @param limits at the end of the run, when the calls under way are over. */
export function spentBudget(
  { unit, limit, asked, resetsInMs }: BudgetExceededError,
  limits: readonly BudgetState[],
): SpentBudget | undefined {
  const [state] = limits.filter((each) => each.unit === unit && each.limit === limit).sort((one, other) => one.left - other.left);
  return state && { ...state, asked, resetsInMs: resetsInMs === Infinity ? undefined : resetsInMs };
}
