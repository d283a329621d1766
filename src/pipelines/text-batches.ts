import { check } from '../../operators/build.js';
import type {
  AccountOptions,
  BatcherOptions,
  BatchResult,
  BatchWork,
  CallContext,
  Classify,
  ErrorClass,
  Limiter,
  LoadOptions,
} from '../../operators/index.js';
import { classifyByStatus, ItemTooHeavyError, lanes, robust, sequentialSearch } from '../../operators/index.js';
import { enteredBatch } from '../account/entered-batch.js';
import type { ProviderRules } from '../account/providers.js';
import { providerOption } from '../account/providers.js';
import { ambientJob, ambientLane } from '../account/with-job.js';
import { LearnedWeight } from './learned-weight.js';
import type { HeldRules } from './limited.js';
import { permitAround, underPermit } from './limited.js';

/** Rules that are options of a batcher as they are. */
const BATCH_RULES = [
  ...['window', 'maxQueued', 'overflow', 'repair', 'classify'],
  ...['timeoutMs', 'deadlineMs', 'onEvent', 'name', 'scheduler', 'random'],
] as const satisfies readonly (keyof BatcherOptions<string>)[];

/** Names of all rules. */
export const TEXT_RULES: readonly string[] = [
  ...['limiter', 'concurrency', 'lanes', 'maxSize', 'maxTokens', 'maxTokensPerText', 'countTokens', 'provider'],
  ...BATCH_RULES,
];

const ACCOUNT = 'Use `limiter: createAccount({ … })`.';

/** What to use in place of options that other functions take. */
export const TEXT_HINTS: Readonly<Record<string, string>> = {
  PerMinute: ACCOUNT,
  PerDay: ACCOUNT,
  rpm: ACCOUNT,
  tpm: ACCOUNT,
  burst: ACCOUNT,
  burstSeconds: ACCOUNT,
  account: 'Use `limiter`.',
  budget: 'Use `limiter: createAccount({ budget })`.',
  rates: 'Use `limiter: createLimiter({ rates: […] })`.',
  maxConcurrent: 'Use `concurrency`.',
  maxConcurrency: 'Use `concurrency`.',
  queue: 'Use `lanes`.',
  lane: 'Give it with the texts.',
  batchSize: 'Use `maxSize`.',
  maxBatchSize: 'Use `maxSize`.',
};

/** What is the same for every client. */
export interface EmbedderRules extends Pick<BatcherOptions<string>, 'maxSize' | Exclude<(typeof BATCH_RULES)[number], 'maxQueued'>> {
  /** Most texts waiting. @defaultValue 10000 */
  readonly maxQueued?: number;
  /** One made by `createAccount` or `createLimiter`, shared with others: slots, rates, budget, records. @defaultValue none, `concurrency` slots of its own */
  readonly limiter?: Limiter;
  /** Calls at a time. Not together with `limiter`. @defaultValue 4 */
  readonly concurrency?: number;
  /** Names of lanes, or what `lanes` takes, most urgent first; keys share each of them fairly. @defaultValue `user` at once and alone, `normal` after 20 ms at most, `background` */
  readonly lanes?: NonNullable<AccountOptions['lanes']>;
  /** Most tokens in one call, as `countTokens` counts. @defaultValue 250000 */
  readonly maxTokens?: number;
  /** Most tokens in one text; a longer one is rejected unsent, one that is only estimated from a quarter above on. @defaultValue 8191 */
  readonly maxTokensPerText?: number;
  /**
   * Tokens of a text. @defaultValue the estimate of the client, else a rough one by length; both learn from the usage that answers report, so that batches
   * fill up to `maxTokens` and keep below it
   */
  readonly countTokens?: (text: string) => number;
  /**
   * What the provider's rate limits count of a request: whether one that is refused (400, 413, 422) keeps its tokens, for example.
   * @defaultValue that of the limiter's account, or of the client, else `providers.other`
   */
  readonly provider?: ProviderRules;
}

type Defaulted = 'maxSize' | 'maxTokens' | 'maxTokensPerText' | 'concurrency' | 'maxQueued' | 'window' | 'lanes';

/** What holds for a rule that was left out. */
export type TextDefaults = Required<Pick<EmbedderRules, Defaulted>>;

/** What is known of an API of texts. */
export interface TextClient {
  /** Finds the price of calls, and the limits of the model. @defaultValue 'default' */
  readonly model?: string | undefined;
  /** What its rate limits count of a request. @defaultValue `providers.other` */
  readonly provider?: ProviderRules | undefined;
  /** What kind of failure an error is. @defaultValue `classifyByStatus` */
  readonly classify?: Classify | undefined;
  /** About how many tokens a text has. @defaultValue by its length */
  readonly estimateTokens?: ((text: string) => number) | undefined;
}

/** How texts travel together. */
export interface TextBatches {
  /** For the batcher. */
  readonly options: BatcherOptions<string> &
    Required<Pick<BatcherOptions<string>, 'maxSize' | 'maxWeight' | 'weigh'>> & {
      readonly maxQueued: number;
      readonly queue: ReturnType<typeof lanes<string>>;
    };
  /** Calls at a time. */
  readonly concurrency: number;
  /** What is said of a text, by its caller or by `withJob` around it. A lane of that which the queue does not know is for another one. */
  readonly placed: (how?: LoadOptions) => LoadOptions;
  /** The work, each call of it settled, written down in the account's ledger, and told to the estimate of tokens. */
  charged<R>(work: BatchWork<string, R>): BatchWork<string, R>;
  /** @throws FlowConfigError inside a request that holds a permit of the same limiter */
  readonly check: () => void;
}

/**
 * The rules as they are for a batcher. Which options there are has been looked at before.
 *
 * @throws FlowConfigError naming the operator and the option
 */
export function textBatches(operator: string, rules: EmbedderRules, defaults: TextDefaults, client: TextClient): TextBatches {
  const d: EmbedderRules = { ...defaults, ...given(rules, Object.keys(defaults)) };
  const maxQueued = check.count(operator, 'maxQueued', d.maxQueued);
  const queue = lanes<string>(d.lanes as NonNullable<EmbedderRules['lanes']>, { key: () => undefined, operator });
  const laneNames = queue.lanes.map(({ name }) => name);
  const concurrency = check.count(operator, 'concurrency', d.concurrency);
  const limiter = check.limiter(operator, 'limiter', rules.limiter, rules.concurrency);
  const own = providerOption(operator, 'provider', rules.provider);
  const facts = { name: operator, model: client.model ?? 'default', provider: own, api: client.provider };
  const scheduler = check.scheduler(operator, 'scheduler', rules.scheduler);
  const classify = check.callback(operator, 'classify', rules.classify) ?? client.classify ?? classifyByStatus;
  const classOf = (error: unknown, { attempt }: CallContext): ErrorClass =>
    check.verdict(operator, classify, error, { size: 1, attempt, aborted: false, epochMs: scheduler.now() }).class;
  const countTokens = check.callback(operator, 'countTokens', rules.countTokens);
  const learned = countTokens ? undefined : new LearnedWeight(client.estimateTokens ?? roughTokens);
  const limit = check.positive(operator, 'maxTokensPerText', d.maxTokensPerText);
  return {
    options: {
      repair: robust({ divide: { strategy: sequentialSearch() } }),
      ...given(rules, BATCH_RULES),
      window: d.window as NonNullable<EmbedderRules['window']>,
      classify,
      operator,
      maxSize: check.count(operator, 'maxSize', d.maxSize),
      maxQueued,
      queue,
      ...(limiter ? { limiter, job: { model: facts.model } } : { concurrency }),
      weigh: weigher(operator, limit, countTokens, learned),
      maxWeight: check.positive(operator, 'maxTokens', d.maxTokens),
      dedupe: (text) => text,
    },
    concurrency: limiter && limiter.concurrency < Infinity ? limiter.concurrency : concurrency,
    placed: (how = {}) => {
      const { key } = ambientJob();
      const lane = ambientLane(laneNames);
      return { ...(lane !== undefined && { lane }), ...(key !== undefined && { key }), ...how };
    },
    charged: (work) => {
      const taught = learned ? teaching(work, learned) : work;
      return limiter
        ? enteredBatch(limiter, facts, () => scheduler.now(), classOf, inPermit({ operator, kind: 'request', limiter }, taught))
        : taught;
    },
    check: () => {
      if (limiter) permitAround({ operator, limiter });
    },
  };
}

/** A client that keeps to the same limiter would wait for the permit of its batch. */
function inPermit<R>(rules: HeldRules, work: BatchWork<string, R>): BatchWork<string, R> {
  return (texts, context) => underPermit<BatchResult<R>>(rules, undefined, () => work(texts, context));
}

/** How far above the bound an estimate must be for a text to be refused unsent: a text that fits must not be refused for an estimate. */
const SURELY = 1.25;

/** Tokens of a text in a batch; a text with too many is refused. */
function weigher(
  operator: string,
  limit: number,
  countTokens: ((text: string) => number) | undefined,
  learned: LearnedWeight | undefined,
): (text: string) => number {
  return (text) => {
    const tokens = countTokens ? countTokens(text) : (learned as LearnedWeight).expected(text);
    if (tokens > (countTokens ? limit : SURELY * limit)) throw new ItemTooHeavyError(operator, Math.ceil(tokens), limit);
    return countTokens ? tokens : Math.ceil((learned as LearnedWeight).weigh(text));
  };
}

/** Four spaces or letters of English for a token; two of digits, marks and other scripts; one of Chinese, Japanese and Korean. */
function roughTokens(text: string): number {
  let quarters = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    quarters += code === 32 || (code > 64 && code < 123) ? 1 : code < 0x2e80 ? 2 : 4;
  }
  return quarters / 4;
}

/** The same work, whose usage is reported to the estimate. */
function teaching<R>(work: BatchWork<string, R>, learned: LearnedWeight): BatchWork<string, R> {
  return (texts, context) => {
    const settle: typeof context.settle = (usage) => {
      if (usage.inputTokens !== undefined) learned.learn(texts, usage.inputTokens);
      context.settle(usage);
    };
    // Its getters and methods are those of the context.
    return work(texts, Object.create(context, { settle: { value: settle } }) as typeof context);
  };
}

function given<O extends object>(options: O, names: readonly string[]): Partial<O> {
  return Object.fromEntries(Object.entries(options).filter(([name, value]) => value !== undefined && names.includes(name))) as Partial<O>;
}
