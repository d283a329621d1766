// Values of pipelines, and the types of policies, hedges and queues.
import {
  type AnswerCaching,
  answerCache,
  callAll,
  type Collected,
  createModelCaller,
  type EmbedClient,
  embeddings,
  type EmbeddingsOptions,
} from 'sluice';
import {
  classifyByStatus,
  createBatcher,
  type GrantQueueRule,
  type HedgeRule,
  type HedgingOptions,
  hedging,
  type LimiterJob,
  type LoadFromOptions,
  loadFrom,
  type PolicyContext,
  type PolicyGuard,
  type PolicyGuardContext,
  ranked,
} from 'sluice/operators';

const cache: AnswerCaching<string> = answerCache({ key: (question: string) => question });
const models = createModelCaller({ call: async (question: string) => question.length, cache });
export const collected = callAll(models, { one: 'why?' }, { errors: 'collect' });
export type Lengths = Collected<'one', number>;
const at: EmbeddingsOptions = { baseUrl: 'http://127.0.0.1/v1', model: 'small' };
export const client: EmbedClient = embeddings(at);
const hedges: HedgingOptions = { delayMs: 5 };
export const rule: HedgeRule = hedging(hedges);
export const decision = classifyByStatus(new Error('busy'), { aborted: false, attempt: 1, epochMs: 0, size: 1 });
const reading: LoadFromOptions<string> = { concurrency: 8, weigh: (text) => text.length };
const batcher = createBatcher((texts: readonly string[]) => Promise.resolve(texts.map((text) => text.length)));
export const lengths = loadFrom(batcher, ['a', 'b'], reading);
export const queue: GrantQueueRule<LimiterJob> = ranked(
  ({ key }) => String(key),
  (one, other) => one.localeCompare(other),
);
export const attemptOf = ({ attempt }: PolicyContext): number => attempt;
export type Guards = readonly [PolicyGuard, PolicyGuardContext];
