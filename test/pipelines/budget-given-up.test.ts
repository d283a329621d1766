import type { Observable, Subscription } from 'rxjs';
import { mergeMap, NEVER, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Handle } from '../../operators/index.js';
import { createAccount } from '../../src/account/create-account.js';
import type { BudgetPort } from '../../src/pipelines/create-budget.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { deferred, turns } from '../traps/tools.js';
import { tool } from './tool-kit.js';

/** A call of 100 tokens that does not end by itself. */
interface Call {
  readonly results: Observable<unknown>;
  readonly handle: Pick<Handle, 'close'> & { snapshot(): { readonly executing: number } };
}

type Work = (told: { settle(usage: { inputTokens: number }): void }) => unknown;
const TIMEOUT_MS = 20;
const noRetries = { retry: false, timeoutMs: TIMEOUT_MS } as const;

const users: Readonly<Record<string, (budget: BudgetPort, work: Work, signal: AbortSignal) => Call>> = {
  'createModelCaller, call': (budget, work, signal) => {
    const models = accountedCaller({ call: { send: (_q, told) => work(told), cost: () => ({ inputTokens: 100 }) }, budget, ...noRetries });
    return { results: models.call('q', { signal }), handle: models };
  },
  'createModelCaller, stream': (budget, work, signal) => {
    const stream = (_q: unknown, told: Parameters<Work>[0]) => work(told) as Promise<AsyncIterable<string>>;
    const models = accountedCaller({ call: { send: () => '', stream, cost: () => ({ inputTokens: 100 }) }, budget, ...noRetries });
    return { results: models.stream('q', { signal }), handle: models };
  },
  createEmbedder: (budget, work, signal) => {
    const call = (_texts: readonly string[], told: Parameters<Work>[0]) => work(told) as Promise<number[][]>;
    const embedder = createEmbedder({
      call,
      limiter: createAccount({ budget }),
      countTokens: () => 100,
      repair: [],
      timeoutMs: TIMEOUT_MS,
    });
    return { results: embedder.embed('a text', { signal, lane: 'user' }), handle: embedder };
  },
  createToolRunner: (budget, work, signal) => {
    const slow = tool('slow', (_args, told) => work(told), { cost: () => ({ inputTokens: 100 }), timeoutMs: TIMEOUT_MS });
    const runner = createToolRunner({ tools: [slow], budget });
    return { results: runner.run([{ id: 'a', name: 'slow', input: {} }], { signal }), handle: runner };
  },
};

const ends = ['timeout', 'leave', 'abort', 'close'] as const;
const rows = Object.keys(users).flatMap((user) =>
  ends.flatMap((end) => (['promise', 'stream'] as const).map((kind) => ({ user, end, kind }))),
);

describe('a call that is given up', () => {
  it.each(rows)('is charged with its estimate and under way no longer, whether it ever settles or not: $user, $end, $kind', async (row) => {
    const late = deferred<never>();
    const budget = createBudget({ limits: [{ tokens: 1000 }] });
    let settle: Parameters<Work>[0]['settle'] | undefined;
    virtualTime(({ advance }) => {
      const leaving = new AbortController();
      const work: Work = (told) => {
        settle = told.settle;
        return row.kind === 'stream' ? NEVER : late.promise;
      };
      const { results, handle } = (users[row.user] as (typeof users)[string])(budget, work, leaving.signal);
      const running = results.subscribe({ error: () => undefined });
      advance(1);
      expect(budget.snapshot()).toMatchObject({ executing: 1, inFlightTokens: 100, spentTokens: 0 });
      if (row.end === 'timeout') advance(TIMEOUT_MS);
      else if (row.end === 'leave') running.unsubscribe();
      else if (row.end === 'abort') leaving.abort();
      else handle.close();
      expect(budget.snapshot()).toMatchObject({ executing: 0, inFlightTokens: 0, spentTokens: 100 });
      advance(5000);
    });
    settle?.({ inputTokens: 70 });
    expect(budget.snapshot()).toMatchObject({ executing: 0, spentTokens: 70 });
    if (row.kind === 'promise') late.reject(Object.assign(new Error('late'), { status: 429 }));
    await turns(5);
    expect(budget.snapshot()).toMatchObject({ executing: 0, inFlightTokens: 0, spentTokens: 70 });
  });
});

describe('a budget that ends the call it is asked about', () => {
  it.each(Object.keys(users).flatMap((user) => (['abort', 'close', 'leave'] as const).map((end) => ({ user, end }))))(
    'has nothing sent, and gets back what it has reserved: $user, $end',
    ({ user, end }) => {
      const told: string[] = [];
      const { running, handle } = virtualTime(({ advance }) => {
        const leaving = new AbortController();
        const budget: BudgetPort = {
          reserve: () => {
            if (end === 'abort') leaving.abort();
            else if (end === 'close') call.handle.close();
            else subscription.unsubscribe();
            return { settle: () => told.push('settled'), release: () => told.push('released') };
          },
        };
        const work: Work = () => {
          told.push('sent');
          return NEVER;
        };
        const call = (users[user] as (typeof users)[string])(budget, work, leaving.signal);
        // Not before there is something to leave.
        const subscription: Subscription = timer(1)
          .pipe(mergeMap(() => call.results))
          .subscribe({ error: () => undefined });
        advance(10);
        return { running: subscription, handle: call.handle };
      });
      expect(told).toEqual(['released']);
      expect(handle.snapshot().executing).toBe(0);
      running.unsubscribe();
    },
  );
});
