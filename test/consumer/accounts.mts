import { type AmbientJob, createAccount, createTokenEstimator, type ProviderRules, providers, type TokenEncoding, withJob } from 'sluice';
import {
  type AccountRates,
  type ByCostOptions,
  byCost,
  createLimiter,
  type DayStart,
  type KeyFairness,
  lanes,
  type LimiterJob,
  type ModelLimits,
  type ModelSnapshot,
  perDay,
  type QueueRule,
  type ReserveRule,
  RetryShareError,
  type SavedModel,
} from 'sluice/operators';

const start: DayStart = { timeZone: 'America/Los_Angeles', hour: 0 };
const rates: AccountRates = { requestsPerMinute: 600, inputTokensPerMinute: 200_000, tokensPerDay: 5_000_000 };
const large: ModelLimits = { model: ['large', 'larger'], concurrency: 1, outputTokensPerMinute: 8000 };
const provider: ProviderRules = { ...providers.openai, unusedOutput: 'returned' };
const account = createAccount({ ...rates, dayStartsAt: start, models: [large], provider, keyFairness: byCost() });
export const models: readonly ModelSnapshot[] | undefined = account.snapshot().models;
export const saved: readonly SavedModel[] | undefined = account.save().models;

const job: AmbientJob = { lane: 'user', key: 'acme' };
export const answer: Promise<number> = withJob(job, () => account.runAsync(() => Promise.resolve(1)));

const options: ByCostOptions = { unit: 'outputTokens' };
const sharing: KeyFairness = byCost(options);
const queue: QueueRule<LimiterJob> = lanes<LimiterJob>([{ name: 'user', reserve: 0.05 }, { name: 'background' }], {
  key: ({ key }) => key,
  keyFairness: sharing,
});
export const reserve: ReserveRule | undefined = queue.reserve;
export const limiter = createLimiter({ rates: [perDay('requests', 1000, start)], queue });

const encoding: TokenEncoding = 'o200k_base';
export const tokens: number = createTokenEstimator({ encoding })('hello');
export const isOverBudget = (error: unknown): boolean => error instanceof RetryShareError;
