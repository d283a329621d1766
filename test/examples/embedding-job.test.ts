import { asyncScheduler, Observable, Subscription } from 'rxjs';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Outcome } from '../../examples/embedding-job/job.js';
import { embedAll, embedAllInFewCalls } from '../../examples/embedding-job/job.js';
import type { Provider } from '../../examples/embedding-job/provider.js';
import { LIMITS, Rules, startProvider, vectorOf } from '../../examples/embedding-job/provider.js';
import { countTokens, leastSeconds, makeTexts, REFUSED } from '../../examples/embedding-job/texts.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { AccountOptions, CallContext, DivideOptions, ResponseLike } from '../../operators/index.js';
import { batchMapFrom, createAccount, divideAndConquer, graded, retryFailed, sequentialSearch } from '../../operators/index.js';
import { isDeep } from '../support/deep.js';

const texts = makeTexts();
const bad = texts.flatMap((text, i) => (text.includes(REFUSED) ? [i] : []));
const boundMs =
  leastSeconds(
    texts.map(countTokens).reduce((sum, tokens) => sum + tokens),
    LIMITS,
  ) * 1000;

it('is the job it says', () => {
  expect(texts).toHaveLength(5000);
  expect(texts.map(countTokens).reduce((sum, tokens) => sum + tokens)).toBe(301_190);
  expect(new Set(texts).size).toBe(5000);
  expect(bad).toHaveLength(10);
  expect(boundMs).toBeCloseTo(3302.7, 1);
});

describe('over HTTP', () => {
  let provider: Provider | undefined;
  afterEach(() => provider?.stop());

  // A first call that takes long to arrive, because everything has to be compiled, is what the rates leave no room for.
  beforeAll(async () => {
    const other = await startProvider();
    await embedAll(other.baseUrl, texts.slice(0, 200));
    await other.stop();
  });

  async function against(job: (baseUrl: string, input: Iterable<string>) => Promise<Outcome>): Promise<Provider['counts']> {
    provider = await startProvider();
    const { vectors, refused } = await job(provider.baseUrl, texts);
    expect([...refused.keys()].sort((a, b) => a - b)).toEqual(bad);
    expect(vectors.size).toBe(4990);
    for (const [i, vector] of vectors) expect([...vector]).toEqual(vectorOf(texts[i] as string));
    return provider.counts;
  }

  // How often it is refused depends on how long the first call takes to arrive: see below for a network without delay.
  it('loses nothing and needs few calls with defaults and what the provider allows', { timeout: 60_000 }, async () => {
    const { calls, throttled } = await against(embedAll);
    expect(calls - throttled).toBeLessThanOrEqual(170);
  });

  it.runIf(isDeep)('needs few calls in a sequential search', { timeout: 60_000 }, async () => {
    const { calls, throttled } = await against(embedAllInFewCalls);
    expect(calls - throttled).toBeLessThanOrEqual(160);
  });
});

interface Run {
  readonly account: AccountOptions;
  readonly divide?: DivideOptions;
  readonly refusalsAreFree?: boolean;
}

/** The job as an embedder does it, against the same rules, on a network without delay. */
function inVirtualTime({ account, divide, refusalsAreFree = false }: Run) {
  return virtualTime(({ flush, now }) => {
    const rules = new Rules(now());
    let open = 0;
    let mostOpen = 0;
    const work = (items: readonly string[], context: CallContext): Observable<number[]> =>
      new Observable((subscriber) => {
        const { status, latencyMs, tokens, retryAfterMs } = rules.judge(items, now());
        mostOpen = Math.max(mostOpen, ++open);
        const call = new Subscription(() => open--);
        call.add(
          asyncScheduler.schedule(() => {
            if (status === 200) context.settle({ inputTokens: tokens });
            else if (status === 400 && refusalsAreFree) context.settle({ inputTokens: 0 });
            if (status === 200) {
              subscriber.next(items.map(countTokens));
              subscriber.complete();
            } else {
              const headers = retryAfterMs === undefined ? {} : { 'retry-after-ms': String(retryAfterMs) };
              subscriber.error({ status, headers } satisfies ResponseLike);
            }
          }, latencyMs),
        );
        return call;
      });
    const outcome = { settled: 0, refused: [] as number[], wallMs: 0 };
    batchMapFrom(texts, work, {
      maxSize: LIMITS.textsPerRequest,
      maxWeight: LIMITS.tokensPerRequest,
      weigh: countTokens,
      maxQueued: 1600,
      window: graded(50),
      limiter: createAccount({
        concurrency: LIMITS.slots,
        requestsPerMinute: 60 * LIMITS.requestsPerSecond,
        tokensPerMinute: 60 * LIMITS.tokensPerSecond,
        burstSeconds: LIMITS.burstSeconds,
        ...account,
      }),
      repair: [retryFailed(), divideAndConquer(divide)],
    }).subscribe((result) => {
      outcome.settled++;
      if (result.status === 'rejected') outcome.refused.push(result.index);
      outcome.wallMs = now();
    });
    flush();
    expect(outcome.settled).toBe(texts.length);
    expect(outcome.refused.sort((a, b) => a - b)).toEqual(bad);
    expect(mostOpen).toBeLessThanOrEqual(LIMITS.slots);
    return { calls: rules.calls, throttled: rules.throttled, timesTheBound: outcome.wallMs / boundMs };
  });
}

describe('in virtual time', () => {
  it('spends the whole budget with headroom 1 and a sequential search: 50 whole calls and 84 to find ten texts', () => {
    const { calls, throttled, timesTheBound } = inVirtualTime({
      account: { headroom: 1 },
      divide: { strategy: sequentialSearch() },
      refusalsAreFree: true,
    });
    expect(throttled).toBe(0);
    expect(calls).toBe(134);
    // The last call of a hundred texts is paid for when the bound is over, and takes another 320 ms.
    expect(timesTheBound).toBeLessThanOrEqual(1.1);
  });

  it('takes as long with a parallel search, which needs more calls', () => {
    const { calls, throttled, timesTheBound } = inVirtualTime({ account: { headroom: 1 }, refusalsAreFree: true });
    expect(throttled).toBe(0);
    expect(calls).toBe(190);
    expect(timesTheBound).toBeLessThanOrEqual(1.1);
  });

  it('leaves a tenth of the rate unused by default', () => {
    const { calls, throttled, timesTheBound } = inVirtualTime({
      account: {},
      divide: { strategy: sequentialSearch() },
      refusalsAreFree: true,
    });
    expect(throttled).toBe(0);
    expect(calls).toBe(134);
    expect(timesTheBound).toBeLessThanOrEqual(1.3);
  });

  it('takes longer where refused calls cost tokens', () => {
    const { throttled, timesTheBound } = inVirtualTime({ account: {}, divide: { strategy: sequentialSearch() } });
    expect(throttled).toBe(0);
    expect(timesTheBound).toBeLessThanOrEqual(1.65);
  });
});
