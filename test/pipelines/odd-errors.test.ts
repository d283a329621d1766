import type { Observable } from 'rxjs';
import { lastValueFrom } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { createBreaker, hedging, robust } from '../../operators/index.js';
import { answerCache, callAll, createAccount } from '../../src/index.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import type { ModelCallerOptions } from '../../src/pipelines/create-model-caller.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { sized } from '../support/deep.js';
import type { OddCall } from '../support/odd-errors.js';
import { failureOf, mistakenIn, unlisted } from '../support/odd-errors.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { tool } from './tool-kit.js';

expectNoUnhandledRejections();

type Work = () => Observable<string>;
type Rules = Partial<ModelCallerOptions<string, string, string>>;
const retry = { maxAttempts: 2, delayMs: 0, maxShare: 1, maxThrottledMs: 0 };
const newBudget = () => createBudget({ limits: [{ tokens: 1000 }] });

const callers: Readonly<Record<string, Rules>> = {
  'without anything': { retry: false },
  'with retries and a breaker': { retry, breaker: createBreaker({}) },
  'with hedges': { retry: false, hedge: hedging({ delayMs: 0 }) },
  'with a cache': { retry, cache: answerCache({ key: (question: string) => question }) },
  'with repair': { retry, parse: (answer) => answer, fixAnswer: { rounds: 1, ask: (question) => question } },
};

const calls: Readonly<Record<string, (work: unknown) => ReturnType<OddCall>>> = {
  ...Object.fromEntries(
    Object.entries(callers).flatMap(([how, rules]) => {
      const make = (work: unknown) => {
        const budget = newBudget();
        const cost = () => ({ inputTokens: 100, outputTokens: 0 });
        const models = accountedCaller<string, string, string>({
          call: { send: work as Work, stream: work as Work, cost },
          budget,
          ...rules,
        });
        const isFree = () => models.snapshot().executing === 0 && budget.snapshot().inFlightTokens === 0;
        return { models, isFree };
      };
      return [
        [
          `createModelCaller ${how}, callAsync`,
          async (work: unknown) => {
            const { models, isFree } = make(work);
            return { ...(await failureOf(models.callAsync('q', { lane: 'user' }))), isFree: isFree() };
          },
        ],
        [
          `createModelCaller ${how}, callAll`,
          async (work: unknown) => {
            const { models, isFree } = make(work);
            return { ...(await failureOf(lastValueFrom(callAll(models, { a: 'q' })))), isFree: isFree() };
          },
        ],
        [
          `createModelCaller ${how}, stream`,
          async (work: unknown) => {
            const { models, isFree } = make(work);
            return { ...(await failureOf(lastValueFrom(models.stream('q')))), isFree: isFree() };
          },
        ],
      ] as const;
    }),
  ),
  ...Object.fromEntries(
    [undefined, retry].map((again) => [
      `createToolRunner ${again ? 'with' : 'without'} retries`,
      async (work: unknown) => {
        const budget = newBudget();
        const bad = tool('bad', work as Work, { cost: () => ({ inputTokens: 100 }), ...(again && { readOnly: true, retry: again }) });
        const tools = createToolRunner({ tools: [bad], budget });
        const { results } = await tools.runAllAsync([{ id: 'a', name: 'bad', input: {} }]);
        const isFree = tools.snapshot().executing === 0 && budget.snapshot().inFlightTokens === 0;
        return { error: results[0]?.is_error && results[0].cause, isFree };
      },
    ]),
  ),
  createEmbedder: async (work) => {
    const budget = newBudget();
    const embedder = createEmbedder({
      call: work as () => Observable<readonly number[][]>,
      model: 'm',
      limiter: createAccount({ budget }),
      repair: robust({ retry }),
    });
    const failure = await failureOf(embedder.embedAsync('text'));
    return { ...failure, isFree: embedder.snapshot().executing === 0 && budget.snapshot().inFlightTokens === 0 };
  },
};

const rows = Object.entries(calls);

describe('an error that cannot be read, or not all of it', () => {
  it.each(rows)('is what the caller gets, and nothing is kept: %s', async (name, call) => {
    const at = rows.findIndex(([one]) => one === name);
    expect(await mistakenIn(call, [at, sized(5, 1)])).toEqual([]);
  });

  it.each(rows)('is made here of every field that is read: %s', async (_name, call) => {
    expect(await unlisted(call)).toEqual([]);
  });
});
