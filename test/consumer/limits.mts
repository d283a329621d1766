import { type MonoTypeOperatorFunction, type Observable, of, type Subscription } from 'rxjs';
import {
  ADAPTIVE_LIMIT_DEFAULTS,
  type AdaptiveLimitOptions,
  adaptiveLimit,
  type ChildLimiterOptions,
  type Cost,
  createLimiter,
  type KeyedJob,
  type KeyedLimiter,
  type KeyedLimiterOptions,
  type Limiter,
  type LimitRule,
  type LimitSample,
  type LimitState,
  NestedAcquireError,
  type Outcome,
  type OverloadClass,
  RATE_LIMIT_DEFAULTS,
  type RateLimitOptions,
  rateLimit,
  type Release,
} from 'sluice/operators';

interface Text {
  readonly tokens: number;
}

const limiter = createLimiter({ lanes: [{ name: 'chat' }] });

// A limit that finds itself
const rule: LimitRule = (sample: LimitSample, { limit, max }: LimitState) => (sample.outcome === 'ok' ? Math.min(max, limit + 1) : limit / 2);
const drops: readonly OverloadClass[] = ADAPTIVE_LIMIT_DEFAULTS.dropOn;
const adapting: AdaptiveLimitOptions = { algorithm: rule, dropOn: drops, classify: () => ({ class: 'throttled' }) };
same<Subscription>()(adaptiveLimit(limiter, adapting));

// Items no faster than an account allows
const cost: Cost = { requests: 1, tokens: 500 };
const limiting: RateLimitOptions<Text> = {
  lane: 'chat',
  maxQueued: RATE_LIMIT_DEFAULTS.maxQueued,
  overflow: 'dropOldest',
  onDrop: (item, policy) => console.warn(item.tokens, policy),
};
same<MonoTypeOperatorFunction<Text>>()(rateLimit<Text>(limiter, cost, limiting));
same<Observable<Text>>()(of({ tokens: 5 } as Text).pipe(rateLimit(limiter, ({ tokens }) => ({ tokens }))));

// Limits inside limits
const account: Limiter = createLimiter({ concurrency: 4 });
const small: ChildLimiterOptions = { concurrency: 1 };
const perKey: KeyedLimiterOptions = { ...small, maxKeys: 100 };
const model: Limiter = account.child(small);
const tools: KeyedLimiter = account.keyed(perKey);
const job: KeyedJob = { key: 'search' };
const outcomes: Outcome[] = [];
const stopListening = account.onRelease((release: Release) => outcomes.push(release.outcome));
tools.tryAcquire(job)?.release();
model.run(({ lease }) => model.run(() => [1], { holder: lease })).subscribe({
  error: (error: unknown) => {
    if (error instanceof NestedAcquireError) console.log(error.concurrency);
  },
});
stopListening();
