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

/** What this run was charged; undefined when the price of a model that it asks is not known. */
export function spentUsd({ config, stages }: RunPlan, budget: Budget | undefined): number | undefined {
  const isPriced = stages.every(({ prompt, model }) => prompt === undefined || priceOfModel(config, model) !== undefined);
  return isPriced ? (budget?.snapshot().spentUsd ?? 0) : undefined;
}
