import { type MonoTypeOperatorFunction, type Observable, of, type Subscription } from 'rxjs';
import {
  type AccountOptions,
  type AdaptiveLimitOptions,
  adaptiveLimit,
  type ChildLimiterOptions,
  type Cost,
  childOf,
  createAccount,
  createLimiter,
  type FromHeadersOptions,
  fromHeaders,
  heldBy,
  type LeaseHolder,
  type KeyedLimiter,
  type KeyedLimiterOptions,
  keyedLimiter,
  type Lease,
  type LearnRule,
  lanes,
  type Limiter,
  NestedAcquireError,
  tokenBucket,
  perMinute,
  type RateLimitOptions,
  type RateOptions,
  type RateRule,
  rateLimit,
  type SavedLimits,
  slidingWindow,
} from 'sluice/operators';

interface Text {
  readonly tokens: number;
}

const limiter = createLimiter({ queue: lanes([{ name: 'chat' }]) });
const drops = ['throttled'];

// Items no faster than an account allows
const cost: Cost = { requests: 1, tokens: 500 };
const limiting: RateLimitOptions<Text> = {
  lane: 'chat',
  maxQueued: 1000,
  overflow: 'dropOldest',
  onDrop: (item, policy) => console.warn(item.tokens, policy),
};
same<MonoTypeOperatorFunction<Text>>()(rateLimit<Text>(limiter, cost, limiting));
same<Observable<Text>>()(of({ tokens: 5 } as Text).pipe(rateLimit(limiter, ({ tokens }) => ({ tokens }))));

// Limits inside limits
const account: Limiter = createLimiter({ concurrency: 4 });
const small: ChildLimiterOptions = { concurrency: 1 };
const perKey: KeyedLimiterOptions = { ...small, maxKeys: 100, perKey: (key) => (key === 'search' ? { concurrency: 5 } : undefined) };
const model: Limiter = childOf(account, small);
const tools: KeyedLimiter = keyedLimiter(account, perKey);
const job = { key: 'search' };
const outcomes = [];
const stopListening = account.onRelease((release) => outcomes.push(release.outcome));
tools.tryAcquire(job)?.release();
model.run(({ lease }) => model.run(() => [1], { holder: heldBy(lease) satisfies LeaseHolder })).subscribe({
  error: (error: unknown) => {
    if (error instanceof NestedAcquireError) console.log(error.concurrency);
  },
});
stopListening();

// Rates, what is learned, and what is kept between processes
const quota = { unit: 'embeddings', amount: 100, windowMs: 1000 };
const saving: RateOptions = { burst: 10 };
const rates: readonly RateRule[] = [tokenBucket({ ...quota, ...saving }), slidingWindow(quota), perMinute('requests', 500, saving)];
const learning: FromHeadersOptions = { learn: false };
const learn: LearnRule = fromHeaders(learning);
const rated = createLimiter({ rates, learn });
const saved: SavedLimits = rated.save();
createLimiter({ rates, restore: saved });
const paying: AccountOptions = { requestsPerMinute: 500, tokensPerMinute: 100_000, lanes: ['chat', 'jobs'] };
same<Limiter>()(createAccount(paying));
const lease = rated.tryAcquire();
const holder = lease && heldBy(lease);
same<Promise<void>>()(rated.pass({ ...(holder && { holder }), cost: { slots: 0, embeddings: 2 } }));
// @ts-expect-error -- a lease is no holder
rated.tryAcquire({ holder: lease });
