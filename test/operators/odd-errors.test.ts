import type { Observable } from 'rxjs';
import { lastValueFrom, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Classify, Limiter, Settled, WorkResult } from '../../operators/index.js';
import {
  adaptiveLimit,
  batchMap,
  bulkheadMap,
  classifyError,
  createBatcher,
  createBreaker,
  createLimiter,
  divideAndConquer,
  hedge,
  policy,
  retryFailed,
  robust,
  sequentialSearch,
  settleAll,
  speculate,
} from '../../operators/index.js';
import { sized } from '../support/deep.js';
import type { OddCall } from '../support/odd-errors.js';
import { failureOf, mistakenIn, unlisted } from '../support/odd-errors.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { wholeList } from '../support/whole-list.js';

expectNoUnhandledRejections();

type Rules = { readonly classify?: Classify };
type Work = () => WorkResult<never>;
type Api = (work: Work, rules: Rules, limiter: Limiter) => PromiseLike<unknown>;

const retry = { maxAttempts: 2, delayMs: 0, maxShare: 1, maxThrottledMs: 0 };

async function settled(result: Observable<Settled<unknown, unknown> | readonly Settled<unknown, unknown>[]>): Promise<unknown> {
  const [first] = [await lastValueFrom(result)].flat();
  if (first?.status === 'rejected') throw first.reason;
  return first;
}

const apis: Readonly<Record<string, Api>> = {
  'createBreaker, run': (work, rules) => lastValueFrom(createBreaker(rules).run(work)),
  'createBreaker, runAsync': (work, rules) => createBreaker(rules).runAsync(work),
  policy: (work, rules, limiter) => lastValueFrom(policy({ ...rules, limiter })(work)),
  'policy with everything': (work, rules, limiter) =>
    lastValueFrom(policy({ ...rules, limiter, retry: retryFailed(retry), breaker: createBreaker(rules), deadlineMs: 20_000 })(work)),
  'policy with a fallback': (work, rules, limiter) =>
    lastValueFrom(
      policy({
        ...rules,
        limiter,
        fallback: (error) => {
          throw error;
        },
      })(work),
    ),
  'hedge at once': (work, rules, limiter) => lastValueFrom(hedge(work, { ...rules, limiter, delayMs: 0 })),
  'hedge after failures': (work, rules, limiter) => lastValueFrom(hedge(work, { ...rules, limiter, delayMs: Infinity, maxAttempts: 3 })),
  adaptiveLimit: (work, rules, limiter) => {
    adaptiveLimit(limiter, rules);
    return limiter.runAsync(work);
  },
  createLimiter: (work, _rules, limiter) => lastValueFrom(limiter.run(work)),
  'a list, robust': (work, rules, limiter) => settled(wholeList(work, { ...rules, limiter, repair: robust({ retry }) })([1, 2, 3])),
  'a list, part by part': (work, rules, limiter) =>
    settled(wholeList(work, { ...rules, limiter, repair: divideAndConquer({ strategy: sequentialSearch() }) })([1, 2, 3, 4, 5])),
  'a list, one by one': (work, rules, limiter) =>
    settled(wholeList(work, { ...rules, limiter, repair: divideAndConquer({ parts: Infinity }) })([1, 2])),
  createBatcher: (work, rules, limiter) => createBatcher(work, { ...rules, limiter, repair: robust({ retry }) }).loadAsync(1),
  batchMap: (work, rules, limiter) => settled(of(1).pipe(batchMap(work, { ...rules, limiter, repair: robust({ retry }) }))),
  bulkheadMap: (work, _rules, limiter) => settled(of(1).pipe(bulkheadMap(work, { limiter }))),
  settleAll: (work, _rules, limiter) => settled(settleAll([1], work, { limiter })),
  speculate: (work) => lastValueFrom(speculate(work, { predict: [1], confirm: [1], match: () => true })),
};

const classifiers: Readonly<Record<string, Rules>> = {
  'by status': {},
  'with `classifyError`': { classify: classifyError },
  'as an unknown error': { classify: () => ({ class: 'itemFault', unrecognised: true }) },
};

const rows = Object.entries(apis).flatMap(([api, make]) =>
  // An argument fewer: it takes no classifier.
  Object.entries(classifiers).flatMap(([how, rules]) => {
    if (how !== 'by status' && /createLimiter|bulkheadMap|settleAll|speculate/.test(api)) return [];
    const call: OddCall = async (work) => {
      const limiter = createLimiter({ concurrency: 3 });
      const failure = await failureOf(make(work as Work, rules, limiter));
      return { ...failure, isFree: limiter.snapshot().executing === 0 };
    };
    return [[`${api}, sorted ${how}`, call] as const];
  }),
);

describe('an error that cannot be read, or not all of it', () => {
  it.each(rows)('is what the caller gets, and nothing is kept: %s', async (name, call) => {
    const at = rows.findIndex(([one]) => one === name);
    expect(await mistakenIn(call, [at, sized(5, 1)])).toEqual([]);
  });

  it.each(rows)('is made here of every field that is read: %s', async (_name, call) => {
    expect(await unlisted(call)).toEqual([]);
  });
});
