import { type AmbientJob, createAccount, createTokenEstimator, type ProviderRules, providers, withJob } from 'sluice';
import {
  type AccountRates,
  byCost,
  createLimiter,
  type DayStart,
  type KeyFairness,
  lanes,
  type LimiterJob,
  type ModelLimits,
  type NamedLanes,
  perDay,
  type QueueRule,
  RetryShareError,
  type WorkOutcome,
} from 'sluice/operators';

const start: DayStart = { timeZone: 'America/Los_Angeles', hour: 0 };
const rates: AccountRates = { requestsPerMinute: 600, inputTokensPerMinute: 200_000, tokensPerDay: 5_000_000 };
const large: ModelLimits = { model: ['large', 'larger'], concurrency: 1, outputTokensPerMinute: 8000 };
const provider: ProviderRules = { ...providers.openai, unusedOutput: 'returned' };
const account = createAccount({ ...rates, dayStartsAt: start, models: [large], provider, keyFairness: byCost() });
export const names: NamedLanes = ['user', { name: 'background', reserve: 0.1 }];
export const outcome: WorkOutcome<string, Promise<string>> = 'answer';
export const models = account.snapshot().models;
export const saved = account.save().models;

const job: AmbientJob = { lane: 'user', key: 'acme' };
export const answer: Promise<number> = withJob(job, () => account.runAsync(() => Promise.resolve(1)));

const sharing: KeyFairness = byCost('outputTokens');
const queue: QueueRule<LimiterJob> = lanes<LimiterJob>([{ name: 'user', reserve: 0.05 }, { name: 'background' }], {
  key: ({ key }) => key,
  keyFairness: sharing,
});
export const reserve = queue.reserve;
export const limiter = createLimiter({ rates: [perDay('requests', 1000, start)], queue });

export const tokens: number = createTokenEstimator({ model: 'gpt-4o' })('hello');
export const isOverBudget = (error: unknown): boolean => error instanceof RetryShareError;
