import Bottleneck from 'bottleneck';
import PQueue from 'p-queue';
import { createLimiter } from '../operators/create-limiter.js';
import { SlidingWindow } from '../operators/kernel/limits/sliding-window.js';
import { TokenBucket } from '../operators/kernel/limits/token-bucket.js';
import { perMinute, slidingWindow } from '../operators/rates.js';
import { canPay } from '../test/support/can-pay.js';
import type { Granted } from '../test/support/rate-accuracy.js';
import { FEEDS, LIMITS, requestCosts, slidingBoundMs, worstWindow } from '../test/support/rate-accuracy.js';
import { FakeClock } from './fake-clock.js';
import { assertCount, table } from './harness.js';

const MINUTE_MS = 60_000;

/** Asks for one request to be let go, and is told by a call of `send`. */
type Ask = (tokens: number, send: () => void) => void;

const amounts = { requests: LIMITS.requestsPerMinute, tokens: LIMITS.tokensPerMinute };

const ours = (how: 'bucket' | 'sliding', options: { readonly headroom?: number } = {}): Ask => {
  const rates = Object.entries(amounts).map(([unit, amount]) =>
    how === 'bucket' ? perMinute(unit, amount) : slidingWindow({ unit, amount, windowMs: MINUTE_MS }),
  );
  const limiter = createLimiter({ rates, ...options });
  return (tokens, send) => {
    limiter.acquire({ cost: { tokens } }).subscribe((lease) => {
      send();
      lease.release();
    });
  };
};

const reservoir = (perMinute: number): Bottleneck =>
  new Bottleneck({ reservoir: perMinute, reservoirRefreshAmount: perMinute, reservoirRefreshInterval: MINUTE_MS });

const queue = (strict: boolean): Ask => {
  const requests = new PQueue({ interval: MINUTE_MS, intervalCap: LIMITS.requestsPerMinute, strict });
  return (_tokens, send) => {
    void requests.add(send);
  };
};

const contestants: Readonly<Record<string, () => Ask>> = {
  "sluice 'bucket', defaults": () => ours('bucket'),
  "sluice 'sliding', defaults": () => ours('sliding'),
  "sluice 'bucket', headroom 1": () => ours('bucket', { headroom: 1 }),
  "sluice 'sliding', headroom 1": () => ours('sliding', { headroom: 1 }),
  'bottleneck, two reservoirs': () => {
    const requests = reservoir(LIMITS.requestsPerMinute);
    const tokens = reservoir(LIMITS.tokensPerMinute);
    return (weight, send) => {
      void requests.schedule(() =>
        tokens.schedule({ weight }, () => {
          send();
          return Promise.resolve();
        }),
      );
    };
  },
  'p-queue, requests only': () => queue(false),
  'p-queue strict, requests only': () => queue(true),
};

async function run(start: () => Ask, costs: readonly number[], restAtMs: number): Promise<Granted[]> {
  const granted: Granted[] = [];
  const clock = new FakeClock();
  await clock.during(
    () => {
      const ask = start();
      const request = (tokens: number): void => {
        ask(tokens, () => granted.push({ atMs: clock.nowMs, tokens }));
      };
      request(costs[0]!);
      setTimeout(() => {
        costs.slice(1).forEach(request);
      }, restAtMs);
    },
    () => granted.length === costs.length,
  );
  assertCount('requests', granted.length, costs.length);
  return granted;
}

/** How many of the requests a provider would have refused. */
function refused(granted: readonly Granted[], Meter: typeof SlidingWindow | typeof TokenBucket): number {
  const { requestsPerMinute, tokensPerMinute } = LIMITS;
  const requestMeter = new Meter(requestsPerMinute, requestsPerMinute, 0);
  const tokenMeter = new Meter(tokensPerMinute, tokensPerMinute, 0);
  let count = 0;
  for (const { atMs, tokens } of granted) {
    if (canPay(requestMeter, 1, atMs) && canPay(tokenMeter, tokens, atMs)) {
      requestMeter.pay(1, atMs);
      tokenMeter.pay(tokens, atMs);
    } else count++;
  }
  return count;
}

const HEADS = [
  'contestant',
  'fullest minute: tokens',
  'requests',
  'refused by a sliding provider',
  'by a bucket provider',
  'last goes at',
  '/ bound',
];

export async function* accuracyTables(): AsyncGenerator<string> {
  const costs = requestCosts();
  for (const [feed, restAtMs] of Object.entries(FEEDS)) {
    const boundMs = slidingBoundMs(costs, restAtMs, 1);
    const rows: string[][] = [];
    for (const [name, start] of Object.entries(contestants)) {
      const granted = await run(start, costs, restAtMs);
      const worst = worstWindow(granted);
      const lastMs = Math.max(...granted.map(({ atMs }) => atMs));
      rows.push([
        name,
        worst.tokens.toFixed(2),
        worst.requests.toFixed(2),
        String(refused(granted, SlidingWindow)),
        String(refused(granted, TokenBucket)),
        `${(lastMs / 1000).toFixed(1)} s`,
        (lastMs / boundMs).toFixed(2),
      ]);
    }
    const { requestsPerMinute, tokensPerMinute } = LIMITS;
    const limits = `${String(requestsPerMinute)} requests and ${tokensPerMinute.toLocaleString('en')} tokens a minute`;
    yield `200 requests under ${limits}, ${feed}; no minute over the limits: ${(boundMs / 1000).toFixed(0)} s at the least\n\n${table(HEADS, rows)}`;
  }
}
