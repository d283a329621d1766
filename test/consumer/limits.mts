import { type MonoTypeOperatorFunction, type Observable, of, type Subscription } from 'rxjs';
import {
  ADAPTIVE_LIMIT_DEFAULTS,
  type AdaptiveLimitOptions,
  adaptiveLimit,
  type Cost,
  createLimiter,
  type LimitRule,
  type LimitSample,
  type LimitState,
  type OverloadClass,
  RATE_LIMIT_DEFAULTS,
  type RateLimitOptions,
  rateLimit,
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
