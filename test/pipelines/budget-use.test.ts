import { defer, EMPTY, map, mergeMap, NEVER, Observable, of, retry, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { VirtualClock } from '../../marbles/virtual.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { BudgetExceededError } from '../../operators/index.js';
import { createBreaker, hedging, isFlowError } from '../../operators/index.js';
import { answerCache, createAccount } from '../../src/index.js';
import type { Budget, BudgetLimit } from '../../src/pipelines/create-budget.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import type { ModelCallerOptions, ModelClient } from '../../src/pipelines/create-model-caller.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';
import type { ToolRunnerOptions } from '../../src/pipelines/create-tool-runner.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { AnyTool, Tool } from '../../src/pipelines/tools/tool-types.js';
import { defineTool } from '../../src/pipelines/tools/tool-types.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { sized } from '../support/deep.js';
import { repeatable } from '../traps/tools.js';

const failure = (fields: object): Error => Object.assign(new Error('refused'), fields);
const fails = (fields: object): Observable<never> => throwError(() => failure(fields));

interface Answer {
  readonly text: string;
  readonly used?: { readonly inputTokens?: number; readonly outputTokens?: number };
}
type Client = ModelClient<string, Answer, Answer>;
type Options = Partial<ModelCallerOptions<string, Answer, Answer> & Pick<Client, 'stream' | 'cost'>>;

const ESTIMATE = { inputTokens: 100, outputTokens: 50 };
const USED = { inputTokens: 90, outputTokens: 10 };

/** A caller whose calls are estimated at 150 tokens, and what is heard of its results. */
function calling(
  clock: VirtualClock,
  send: Client['send'],
  { stream, cost = () => ESTIMATE, ...options }: Options = {},
  limits: readonly BudgetLimit[] = [{ tokens: 1000 }],
) {
  const budget = createBudget({ limits, scheduler: clock.scheduler });
  const models = accountedCaller<string, Answer, Answer>({
    call: { send, model: 'small', cost, usage: ({ used }) => used, ...(stream && { stream }) },
    retry: { delayMs: 10, jitter: 'none' },
    budget,
    ...options,
  });
  const heard: unknown[] = [];
  const hear = {
    next: (value: unknown) => heard.push(value),
    error: (error: unknown) => heard.push(error),
  };
  return { budget, models, heard, hear, spent: () => sumsOf(budget) };
}

/** What is spent, and what is under way. */
function sumsOf(budget: Budget): readonly [number, number] {
  const { spentTokens, inFlightTokens } = budget.snapshot();
  return [spentTokens, inFlightTokens];
}

const answers = (ms: number, used?: Answer['used']): Observable<Answer> =>
  timer(ms).pipe(map(() => ({ text: 'yes', ...(used && { used }) })));
const codeOf = (error: unknown): unknown => (isFlowError(error) ? error.code : error);

describe('a model caller with a budget', () => {
  it('is charged with the estimate while the call is under way, and with the usage when it is over', () => {
    virtualTime((clock) => {
      const { models, hear, spent } = calling(clock, () => answers(10, USED));
      models.call('a').subscribe(hear);
      expect(spent()).toEqual([0, 150]);
      clock.flush();
      expect(spent()).toEqual([100, 0]);
    });
  });

  it.each([
    ['answers without a usage', () => of({ text: 'yes' }), 150],
    ['answers with half of one', () => of({ text: 'yes', used: { outputTokens: 20 } }), 120],
    ['has an answer that cannot be parsed', () => of({ text: 'yes', used: USED }), 100],
    ['is lost behind a gateway', () => fails({ status: 504 }), 150],
    ['fails at the provider', () => fails({ status: 500 }), 0],
    ['meets an overloaded provider', () => fails({ status: 529 }), 0],
    ['was refused as invalid, by a filter maybe', () => fails({ status: 400 }), 150],
    ['was refused for its key', () => fails({ status: 401 }), 0],
    ['was refused as one too many', () => fails({ status: 429 }), 0],
    ['was too large', () => fails({ status: 413 }), 0],
    ['never arrived', () => fails({ cause: failure({ code: 'ECONNREFUSED' }) }), 0],
    ['broke off', () => fails({ code: 'ECONNRESET' }), 150],
    ['throws before it is sent', () => createBudget({ warnAt: 5 }), 0],
    ['ends without an answer', () => EMPTY, 150],
  ])('pays for a call that %s', (what, call, tokens) => {
    virtualTime((clock) => {
      const isBad = what.includes('parsed');
      const parse = (answer: Answer): Answer => {
        if (isBad) throw new Error('unreadable');
        return answer;
      };
      const { models, hear, spent } = calling(clock, call as Client['send'], { retry: false, parse });
      models.call('a').subscribe(hear);
      clock.flush();
      expect(spent()).toEqual([tokens, 0]);
    });
  });

  it('pays for every attempt, by what each has cost', () => {
    virtualTime((clock) => {
      let attempts = 0;
      const { models, heard, hear, spent } = calling(
        clock,
        () => [fails({ status: 502 }), fails({ status: 429 }), answers(5, USED)][attempts++]!,
      );
      models.call('a').subscribe(hear);
      // A pause is no call.
      expect(spent()).toEqual([150, 0]);
      clock.flush();
      expect(heard).toMatchObject([{ text: 'yes' }]);
      expect(spent()).toEqual([250, 0]);
    });
  });

  it('pays nothing for what never left the queue, and the estimate of what was left in the middle', () => {
    virtualTime((clock) => {
      const { models, spent } = calling(clock, () => NEVER, { concurrency: 1, timeoutMs: 1000 });
      const calls = [models.call('a').subscribe(), models.call('b').subscribe()];
      expect(spent()).toEqual([0, 150]);
      calls[1]?.unsubscribe();
      calls[0]?.unsubscribe();
      clock.flush();
      expect(spent()).toEqual([150, 0]);
    });
  });

  it('charges nothing for a call that is aborted by a listener of its start', () => {
    virtualTime((clock) => {
      let sent = 0;
      const { models, spent } = calling(
        clock,
        () => {
          sent++;
          return NEVER;
        },
        {
          onEvent: (event) => {
            if (event.type === 'attemptStarted') leave.abort();
          },
        },
      );
      const leave = new AbortController();
      models.call('a', { signal: leave.signal }).subscribe({ error: () => undefined });
      clock.flush();
      expect([sent, ...spent()]).toEqual([0, 0, 0]);
    });
  });

  it('keeps the estimate of an attempt that took too long, until its client says better', async () => {
    const budget = createBudget();
    let answer: (value: Answer) => void = () => undefined;
    const models = createModelCaller({
      call: {
        send: (_request: string) =>
          new Promise<Answer>((resolve) => {
            answer = resolve;
          }),
        cost: () => ESTIMATE,
        usage: ({ used }) => used,
      },
      budget,
      retry: false,
      limiter: createAccount({ concurrency: 4 }),
    });
    const leave = new AbortController();
    const left = models.callAsync('a', { signal: leave.signal });
    leave.abort();
    await expect(left).rejects.toThrow();
    expect(sumsOf(budget)).toEqual([150, 0]);
    answer({ text: 'late', used: USED });
    await Promise.resolve();
    await Promise.resolve();
    expect(sumsOf(budget)).toEqual([100, 0]);
  });

  it('pays for both attempts of a hedge, and does without the second when there is no room', () => {
    virtualTime((clock) => {
      const hedge = { hedge: hedging({ delayMs: 10 }) };
      const both = calling(clock, (_request, { attempt }) => answers(attempt === 1 ? 100 : 20, USED), hedge);
      both.models.call('a', { lane: 'user' }).subscribe(both.hear);
      clock.advance(15);
      expect(both.spent()).toEqual([0, 300]);
      clock.flush();
      // The loser was sent, and its usage never arrived.
      expect(both.spent()).toEqual([250, 0]);

      const alone = calling(clock, (_request, { attempt }) => answers(attempt === 1 ? 100 : 20, USED), hedge, [{ tokens: 299 }]);
      alone.models.call('a', { lane: 'user' }).subscribe(alone.hear);
      clock.flush();
      expect(alone.heard).toMatchObject([{ text: 'yes' }]);
      expect(alone.spent()).toEqual([100, 0]);
    });
  });

  it('pays for a stream what its last word says, and the estimate of one that was left or broke off', () => {
    virtualTime((clock) => {
      const chunks = (last: Observable<Answer>) =>
        new Observable<Answer>((to) => {
          to.next({ text: 'y' });
          return last.subscribe(to);
        });
      const streams: Record<string, Observable<Answer>> = {
        whole: chunks(answers(5, USED)),
        silent: chunks(answers(5)),
        endless: chunks(NEVER),
        // Too late for a refusal: something was said.
        late: chunks(fails({ status: 429 })),
      };
      for (const [name, tokens] of [
        ['whole', 100],
        ['silent', 150],
        ['endless', 150],
        ['late', 150],
      ] as const) {
        const { models, hear, spent } = calling(clock, () => NEVER, { stream: (request) => streams[request]!, retry: false });
        const left = models.stream(name).subscribe(hear);
        clock.advance(10);
        left.unsubscribe();
        expect([name, ...spent()]).toEqual([name, tokens, 0]);
      }
      clock.flush();
    });
  });

  it('refuses what has no room: at once, once, without a retry, an attempt, a breaker or a permit', () => {
    virtualTime((clock) => {
      const limiter = createAccount({ concurrency: 2, requestsPerMinute: 60, scheduler: clock.scheduler });
      const breaker = createBreaker({ opens: { inARow: 1 } });
      const told: string[] = [];
      const { models, heard, hear, spent } = calling(
        clock,
        () => answers(10, USED),
        { limiter, breaker, onEvent: ({ type }) => told.push(type) },
        [{ tokens: 140, windowMs: 1000 }],
      );
      const before = limiter.snapshot().requests;
      models.call('a').subscribe(hear);
      clock.flush();
      expect(heard.map(codeOf)).toEqual(['FLOW_BUDGET_EXCEEDED']);
      expect(told).not.toContain('attemptStarted');
      expect(told).not.toContain('retryScheduled');
      expect(limiter.snapshot()).toMatchObject({ executing: 0, requests: before });
      expect(breaker.state).toBe('closed');
      expect(spent()).toEqual([0, 0]);
      expect(models.snapshot().executing).toBe(0);
    });
  });

  it('waits for room that calls under way have reserved and do not use, and is refused when nothing gives it back', () => {
    virtualTime((clock) => {
      const { models, heard, hear, spent } = calling(clock, () => answers(10, USED), { concurrency: 20 }, [{ tokens: 1000 }]);
      for (let i = 0; i < 50; i++) models.call(String(i)).subscribe(hear);
      expect(spent()).toEqual([0, 900]);
      clock.flush();
      // Ten calls of 100 tokens have room, though six at a time have reserved all of it; the eleventh would fit, were it not for its estimate.
      expect(heard.filter((each) => !isFlowError(each))).toHaveLength(9);
      expect(heard.slice(9).map(codeOf)).toEqual(Array(41).fill('FLOW_BUDGET_EXCEEDED'));
      expect(spent()).toEqual([900, 0]);
    });
  });

  it('loses none of fifty calls that reserve ten times what they cost', () => {
    virtualTime((clock) => {
      const { models, heard, hear, spent } = calling(
        clock,
        () => answers(20, { inputTokens: 5, outputTokens: 5 }),
        { concurrency: 20, cost: () => ({ inputTokens: 0, outputTokens: 100 }) },
        [{ tokens: 1000 }],
      );
      for (let i = 0; i < 50; i++) models.call(String(i)).subscribe(hear);
      clock.flush();
      expect(heard).toEqual(Array(50).fill(expect.objectContaining({ text: 'yes' })));
      expect(spent()).toEqual([500, 0]);
    });
  });

  it('waits within its deadline, without spending the time of its attempt, and leaves nothing behind', () => {
    virtualTime((clock) => {
      const slow = answers(100, USED);
      const { models, heard, hear, spent } = calling(clock, () => slow, { timeoutMs: 110 }, [{ tokens: 160 }]);
      models.call('first').subscribe(hear);
      models.call('late', { deadlineMs: 50 }).subscribe(hear);
      const left = models.call('left').subscribe(hear);
      clock.advance(60);
      expect(heard.map(codeOf)).toEqual(['FLOW_DEADLINE']);
      left.unsubscribe();
      clock.flush();
      expect(spent()).toEqual([100, 0]);
      expect(models.snapshot()).toMatchObject({ executing: 0 });

      const again = calling(clock, () => answers(100, { inputTokens: 1, outputTokens: 1 }), { timeoutMs: 110 }, [{ tokens: 160 }]);
      for (const name of ['one', 'two', 'three']) again.models.call(name).subscribe(again.hear);
      clock.flush();
      expect(again.heard).toEqual(Array(3).fill(expect.objectContaining({ text: 'yes' })));
    });
  });

  it('waits for the next window, too', () => {
    virtualTime((clock) => {
      const { models, heard, hear } = calling(clock, () => answers(1000, USED), {}, [{ tokens: 160, windowMs: 300 }]);
      models.call('a').subscribe(hear);
      models.call('b').subscribe(hear);
      clock.advance(299);
      expect(models.snapshot().executing).toBe(1);
      clock.advance(2);
      expect(models.snapshot().executing).toBe(2);
      clock.flush();
      expect(heard).toHaveLength(2);
    });
  });

  it('does not wait for a limit of its key, with a permit that others could use: the error says when to ask again', () => {
    virtualTime((clock) => {
      const { budget, models, heard, hear } = calling(clock, () => answers(10, USED), {}, [
        { key: 'acme', tokens: 250 },
        { tokens: 10_000 },
      ]);
      models.call('a', { key: 'acme' }).subscribe(hear);
      models.call('b', { key: 'acme' }).subscribe(hear);
      expect(heard).toMatchObject([{ key: 'acme', limit: 250, left: 100, asked: 150 }]);
      const asked: string[] = [];
      const call = defer(() => of(budget.reserve({ model: 'small', key: 'acme', ...ESTIMATE })));
      call.pipe(retry({ delay: ({ freed }: BudgetExceededError) => freed ?? throwError(() => 'no room') })).subscribe({
        next: () => asked.push('reserved'),
        error: (error) => asked.push(String(error)),
      });
      expect(asked).toEqual([]);
      clock.flush();
      expect(asked).toEqual(['reserved']);
    });
  });

  it('is not tried again whatever `classify` says, and the error has no prompt in it', () => {
    virtualTime((clock) => {
      const { models, heard, hear } = calling(clock, () => NEVER, { classify: () => ({ class: 'transient' }) }, [{ tokens: 0 }]);
      models.call('planted-secret').subscribe(hear);
      clock.flush();
      expect(heard.map(codeOf)).toEqual(['FLOW_BUDGET_EXCEEDED']);
      expect(`${String(heard[0])}${JSON.stringify(heard[0])}`).not.toContain('planted-secret');
    });
  });

  it('needs a price for its model, and says so before anything is sent', () => {
    virtualTime((clock) => {
      const budget = createBudget({ limits: [{ usd: 1 }], prices: { large: { inputUsdPerMillion: 1 } } });
      let sent = 0;
      const call = (): Observable<Answer> => {
        sent++;
        return NEVER;
      };
      const { models, heard, hear } = calling(clock, call, { budget });
      models.call('a').subscribe(hear);
      clock.flush();
      expect(heard).toMatchObject([{ code: 'FLOW_CONFIG_INVALID', option: "prices['small']" }]);
      expect(sent).toBe(0);
    });
  });

  it('charges the key of the call', () => {
    virtualTime((clock) => {
      const { budget, models, heard, hear } = calling(clock, () => answers(1, USED), {}, [{ key: 'acme', tokens: 200 }]);
      models.call('a', { key: 'acme' }).subscribe(hear);
      models.call('b', { key: 'acme' }).subscribe(hear);
      models.call('c', { key: 'beta' }).subscribe(hear);
      clock.flush();
      expect(heard.map(codeOf)).toEqual(['FLOW_BUDGET_EXCEEDED', { text: 'yes', used: USED }, { text: 'yes', used: USED }]);
      expect(budget.snapshot()).toMatchObject({ spentTokens: 200, limits: [{ spent: 100 }] });
    });
  });

  it('counts a plain number as tokens of prompt and answer together, and rejects a cost that is no number', () => {
    virtualTime((clock) => {
      const prices = { small: { inputUsdPerMillion: 1, outputUsdPerMillion: 4 } };
      const budget = createBudget({ prices, scheduler: clock.scheduler });
      const { models, heard, hear } = calling(clock, () => of({ text: 'yes' }), {
        budget,
        cost: (request) => ({ number: 100, both: ESTIMATE, half: { inputTokens: 7 } })[request] ?? (null as never),
      });
      for (const request of ['number', 'both', 'half', 'null']) models.call(request).subscribe(hear);
      clock.flush();
      expect(budget.snapshot()).toMatchObject({ spentUsd: 0.0004 + 0.0003 + 0.000_007, spentTokens: 257 });
      expect(heard.map(codeOf).at(-1)).toBe('FLOW_CALLBACK');
    });
  });

  it('fails a call whose budget cannot be written down, and sends nothing', () => {
    virtualTime((clock) => {
      const full = new Error('no space left');
      const store = {
        load: () => undefined,
        save: () => {
          throw full;
        },
      };
      const { models, heard, hear } = calling(clock, () => NEVER, { budget: createBudget({ storage: store }) });
      models.call('a').subscribe(hear);
      clock.flush();
      expect(heard).toEqual([full]);
    });
  });
});

describe('an embedder with a budget', () => {
  const embedding = (budget: Budget, call: (texts: readonly string[]) => Observable<readonly number[][]>, settles = true) =>
    createEmbedder({
      call: (texts, context) => {
        if (settles) context.settle({ inputTokens: texts.length * 8 });
        return call(texts);
      },
      countTokens: () => 10,
      limiter: createAccount({ budget }),
    });
  const vectors = (texts: readonly string[]): Observable<readonly number[][]> => of(texts.map(() => [1]));

  it('pays for each call what its texts have cost, equal texts once', () => {
    virtualTime((clock) => {
      const budget = createBudget({ limits: [{ tokens: 100 }], scheduler: clock.scheduler });
      const embedder = embedding(budget, (texts) => timer(5).pipe(mergeMap(() => vectors(texts))));
      for (const text of ['a', 'b', 'b', 'c']) embedder.embed(text).subscribe();
      embedder.flush();
      clock.advance(1);
      expect(sumsOf(budget)).toEqual([0, 30]);
      clock.flush();
      expect(sumsOf(budget)).toEqual([24, 0]);
    });
  });

  it('is one of its model, for prices and for limits, also over a client of yours', () => {
    virtualTime((clock) => {
      const prices = { small: { inputUsdPerMillion: 1 }, large: { inputUsdPerMillion: 3 } };
      const budget = createBudget({ prices, limits: [{ usd: 1 }, { model: 'large', tokens: 15 }], scheduler: clock.scheduler });
      for (const model of Object.keys(prices)) {
        const embedder = createEmbedder({ call: vectors, model, countTokens: () => 10, limiter: createAccount({ budget }) });
        embedder.embed('a').subscribe();
        embedder.flush();
        clock.flush();
      }
      expect(budget.snapshot()).toMatchObject({ spentUsd: 0.000_04, limits: [{ spent: 0.000_04 }, { spent: 10 }] });
    });
  });

  it('pays for each part of a batch that is split, and nothing for the refusals', () => {
    virtualTime((clock) => {
      const budget = createBudget({ limits: [{ tokens: 10_000 }], scheduler: clock.scheduler });
      const sent: number[] = [];
      const embedder = embedding(
        budget,
        (texts) => {
          const isBad = texts.includes('bad');
          if (!isBad) sent.push(texts.length);
          return isBad ? fails({ status: 400 }) : vectors(texts);
        },
        false,
      );
      const heard: unknown[] = [];
      for (const text of ['a', 'b', 'c', 'bad', 'd', 'e', 'f', 'g']) {
        embedder.embed(text).subscribe({ next: () => heard.push('vector'), error: (error: unknown) => heard.push(error) });
      }
      embedder.flush();
      clock.flush();
      expect(heard.filter((one) => one === 'vector')).toHaveLength(7);
      // Every good text was embedded once, without a usage, so for its estimate.
      expect(sent.reduce((sum, n) => sum + n, 0)).toBe(7);
      expect(sumsOf(budget)).toEqual([70, 0]);
    });
  });

  it('rejects the texts of a call without room, unsent and untried, with the tokens of the rate given back', () => {
    virtualTime((clock) => {
      const budget = createBudget({ limits: [{ tokens: 25 }], scheduler: clock.scheduler });
      let sent = 0;
      const limiter = createAccount({ budget, concurrency: 2, tokensPerMinute: 60_000, scheduler: clock.scheduler });
      const before = limiter.snapshot().tokens;
      const embedder = createEmbedder({
        call: (texts) => {
          sent++;
          return vectors(texts);
        },
        countTokens: () => 10,
        limiter,
        maxSize: 3,
      });
      const heard: unknown[] = [];
      for (const text of ['a', 'b', 'c']) embedder.embed(text).subscribe({ error: (error: unknown) => heard.push(codeOf(error)) });
      embedder.flush();
      expect(limiter.snapshot().tokens).toBe(before);
      clock.flush();
      expect(heard).toEqual(['FLOW_BUDGET_EXCEEDED', 'FLOW_BUDGET_EXCEEDED', 'FLOW_BUDGET_EXCEEDED']);
      expect([sent, ...sumsOf(budget)]).toEqual([0, 0, 0]);
    });
  });

  it.each([
    ['refused as one too many', { status: 429 }, 0],
    ['broken off', { code: 'ECONNRESET' }, 10],
  ])('pays for a call that was %s', (_what, fields, tokens) => {
    virtualTime((clock) => {
      const budget = createBudget({ scheduler: clock.scheduler });
      const embedder = createEmbedder({ call: () => fails(fields), countTokens: () => 10, limiter: createAccount({ budget }), repair: [] });
      embedder.embed('a').subscribe({ error: () => undefined });
      embedder.flush();
      clock.flush();
      expect(sumsOf(budget)).toEqual([tokens, 0]);
    });
  });

  it('pays for promises in the same way, and for what was left by the time it is over', async () => {
    const budget = createBudget();
    const ok = createEmbedder({
      call: (texts, context) => {
        context.settle({ inputTokens: 3 });
        return Promise.resolve(texts.map(() => [1]));
      },
      limiter: createAccount({ budget }),
    });
    await ok.embedAsync('a');
    expect(sumsOf(budget)).toEqual([3, 0]);
    const bad = createEmbedder({ call: () => Promise.reject(failure({ status: 403 })), limiter: createAccount({ budget }), repair: [] });
    await expect(bad.embedAsync('a')).rejects.toThrow('refused');
    expect(sumsOf(budget)).toEqual([3, 0]);
    const broken = createEmbedder({
      call: () => {
        throw failure({ status: 401 });
      },
      limiter: createAccount({ budget }),
      repair: [],
    });
    await expect(broken.embedAsync('a')).rejects.toThrow('refused');
    const left = createEmbedder({ call: () => NEVER, limiter: createAccount({ budget }), countTokens: () => 10 });
    const leaving = left.embed('a', { lane: 'user' }).subscribe();
    await Promise.resolve();
    expect(budget.snapshot().executing).toBe(1);
    leaving.unsubscribe();
    expect(sumsOf(budget)).toEqual([13, 0]);
  });
});

describe('a tool runner with a budget', () => {
  const parameters = z.object({ text: z.string() });
  /** A tool that says what it spends: ten tokens and one for each letter of the text. */
  const summary = (execute: Tool<{ text: string }>['execute'], rest: Partial<Tool<{ text: string }>> = {}) =>
    defineTool<{ text: string }, unknown>({
      name: 'summary',
      description: 'Sums up.',
      parameters,
      cost: ({ text }) => ({ inputTokens: text.length, outputTokens: 10 }),
      execute,
      ...rest,
    });
  const running = (tool: AnyTool, limits: readonly BudgetLimit[] = [], options: Partial<ToolRunnerOptions> = {}) => {
    const budget = createBudget({ limits });
    return { budget, runner: createToolRunner({ tools: [tool], budget, retry: { delayMs: 0 }, ...options }) };
  };
  const call = (id: string, text = 'abcde') => ({ id, name: 'summary', input: { text } });

  it('pays for what tools say they spend, by what they say they have used', async () => {
    let seen = 0;
    const { budget, runner } = running(
      summary((_args, context) => {
        seen = budget.snapshot().inFlightTokens;
        context.settle({ outputTokens: 3 });
        return 'short';
      }),
    );
    const { results } = await runner.runAllAsync([call('a')]);
    expect(results).toMatchObject([{ content: 'short' }]);
    expect([seen, ...sumsOf(budget)]).toEqual([15, 8, 0]);
  });

  it('pays for each attempt, and nothing for what a guard or a schema has refused', async () => {
    let attempts = 0;
    const { budget, runner } = running(
      summary(() => (attempts++ === 0 ? fails({ status: 504 }) : 'short'), { idempotent: true }),
      [],
      { guard: ({ id }) => id !== 'no' },
    );
    await runner.runAllAsync([call('a'), call('no'), { ...call('bad'), input: {} }]);
    expect([attempts, ...sumsOf(budget)]).toEqual([2, 30, 0]);
  });

  it('pays nothing for tools that say nothing, priced or not', async () => {
    const { budget, runner } = running(defineTool({ name: 'summary', description: 'Free.', parameters, execute: () => 'short' }), [
      { tokens: 0 },
    ]);
    expect(await runner.runAllAsync([call('a')])).toMatchObject({ summary: { successful: 1 } });
    expect(sumsOf(budget)).toEqual([0, 0]);
  });

  it('answers a call without room as failed, for the model to see, and never runs it', async () => {
    let ran = 0;
    const tool = summary(() => ran++, { idempotent: true });
    const { budget, runner } = running(tool, [{ key: 'acme', tokens: 20 }]);
    const { results } = await runner.runAllAsync([call('a'), call('b')], { key: 'acme' });
    expect(results).toMatchObject([{ is_error: false }, { is_error: true, attempts: 0, error: { code: 'budget_exceeded' } }]);
    expect(codeOf(results[1]?.is_error && results[1].cause)).toBe('FLOW_BUDGET_EXCEEDED');
    expect([ran, ...sumsOf(budget)]).toEqual([1, 15, 0]);
    expect(runner.snapshot()).toMatchObject({ open: 0, executing: 0 });
  });

  it('says what is wrong with a price or with what a tool says', async () => {
    const unpriced = createToolRunner({
      tools: [summary(() => 'short')],
      budget: createBudget({ limits: [{ usd: 1 }], prices: { other: {} } }),
    });
    expect(await unpriced.runAllAsync([call('a')])).toMatchObject({
      results: [{ error: { code: 'failed' }, cause: { code: 'FLOW_CONFIG_INVALID' } }],
    });
    const { runner } = running(
      summary(() => 'short', {
        cost: () => {
          throw new Error('mine');
        },
      }),
    );
    expect(await runner.runAllAsync([call('a')])).toMatchObject({
      results: [{ error: { code: 'failed' }, cause: { code: 'FLOW_CALLBACK' } }],
    });
  });

  it('keeps what was reserved for calls that were given up, and has nothing under way', async () => {
    const { budget, runner } = running(
      summary(() => NEVER),
      [],
      { timeoutMs: 20 },
    );
    const leaving = runner.run([call('a')]).subscribe();
    expect(sumsOf(budget)).toEqual([0, 15]);
    leaving.unsubscribe();
    expect(sumsOf(budget)).toEqual([15, 0]);
    expect(await runner.runAllAsync([call('b')])).toMatchObject({ results: [{ error: { code: 'timeout' } }] });
    expect(sumsOf(budget)).toEqual([30, 0]);
  });
});

describe('answers that are kept, and answers that are asked for again', () => {
  it('cost nothing when the cache has them, once when they are shared, and for each round of a repair', () => {
    virtualTime((clock) => {
      const cached = calling(clock, () => answers(5, USED), { cache: answerCache({ key: (request: string) => request }) });
      const hear = (): void => {
        cached.models.call('a').subscribe(cached.hear);
      };
      hear();
      hear();
      clock.flush();
      hear();
      clock.flush();
      expect(cached.heard).toHaveLength(3);
      expect(cached.spent()).toEqual([100, 0]);

      const parse = (answer: Answer, request: string): Answer => {
        if (request === 'again') return answer;
        throw new Error('unreadable');
      };
      const repaired = calling(clock, () => answers(5, USED), { parse, fixAnswer: { ask: () => 'again' } });
      repaired.models.call('a').subscribe(repaired.hear);
      clock.flush();
      expect(repaired.heard).toMatchObject([{ text: 'yes' }]);
      expect(repaired.spent()).toEqual([200, 0]);
    });
  });
});

describe('64 callers over faults, retries, hedges, streams and people who leave', () => {
  /** What a provider would bill for a request: for all work that it has done, also after the caller left. */
  function world(seed: number) {
    const random = repeatable(seed);
    const pick = (n: number): number => Math.floor(random() * n);
    return virtualTime((clock) => {
      const budget = createBudget({ limits: [{ tokens: 60_000 }, { key: 'k0', tokens: 9_000 }], scheduler: clock.scheduler });
      const billed = { all: 0, k0: 0 };
      const seen = { answered: 0, refused: 0, failed: 0, left: 0 };
      const serve = (request: string): Observable<Answer> =>
        new Observable<Answer>((to) => {
          const how = random();
          if (how < 0.1) {
            to.error(failure({ status: 429 }));
            return;
          }
          const used = { inputTokens: 20 + pick(80), outputTokens: pick(50) };
          const tokens = used.inputTokens + used.outputTokens;
          const bill = (): void => {
            billed.all += tokens;
            if (request === 'k0') billed.k0 += tokens;
          };
          // From here on it costs something, also when the caller does not wait for the end.
          bill();
          return timer(1 + pick(60)).subscribe(() => {
            if (how < 0.25) to.error(failure({ status: how < 0.2 ? 503 : 400 }));
            else {
              to.next({ text: 'yes', ...(how < 0.9 && { used }) });
              to.complete();
            }
          });
        });
      const models = createModelCaller<string, Answer, Answer>({
        call: { send: serve, stream: serve, cost: () => ESTIMATE, usage: ({ used }) => used },
        hedge: hedging({ delayMs: 20, maxShare: Infinity }),
        timeoutMs: 45,
        retry: { delayMs: 5, maxShare: 1 },
        scheduler: clock.scheduler,
        random,
        budget,
        limiter: createAccount({ concurrency: 64, maxQueued: Infinity }),
      });
      const next = (caller: number, left: number): void => {
        if (left === 0) return;
        const key = `k${String(pick(4))}`;
        const work = pick(4) === 0 ? models.stream(key, { key }) : models.call(key, { key, lane: pick(2) === 0 ? 'user' : 'normal' });
        const again = (outcome: keyof typeof seen) => () => {
          seen[outcome]++;
          clock.scheduler.schedule(() => {
            next(caller, left - 1);
          }, 1 + pick(10));
        };
        const call = work.subscribe({
          complete: again('answered'),
          error: (error: unknown) => {
            again(isFlowError(error, 'FLOW_BUDGET_EXCEEDED') ? 'refused' : 'failed')();
          },
        });
        if (pick(10) === 0) {
          clock.scheduler.schedule(() => {
            if (call.closed) return;
            call.unsubscribe();
            again('left')();
          }, pick(30));
        }
      };
      for (let caller = 0; caller < 64; caller++) next(caller, 20);
      clock.flush();
      return { billed, seen, snapshot: budget.snapshot() };
    });
  }

  it.each(Array.from({ length: sized(2, 60) }, (_, i) => i + 1))(
    'never cost more than is charged, nor than the limits (seed %i)',
    (seed) => {
      const { billed, seen, snapshot } = world(seed);
      const [all, k0] = snapshot.limits;
      expect(snapshot.executing).toBe(0);
      expect([all?.inFlight, k0?.inFlight]).toEqual([0, 0]);
      expect(billed.all).toBeLessThanOrEqual(all?.spent ?? 0);
      expect(billed.k0).toBeLessThanOrEqual(k0?.spent ?? 0);
      expect(all?.spent).toBeLessThanOrEqual(60_000);
      expect(k0?.spent).toBeLessThanOrEqual(9_000);
      // Worth looking at.
      for (const outcome of ['answered', 'refused', 'failed', 'left'] as const)
        expect([outcome, seen[outcome] > 0]).toEqual([outcome, true]);
    },
  );
});
