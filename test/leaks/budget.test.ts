import { NEVER, of, throwError } from 'rxjs';
import { expect, it } from 'vitest';
import * as z from 'zod';
import { leakCheck } from '../../marbles/leak-check.js';
import { createAccount } from '../../src/account/create-account.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { CountingScheduler } from '../support/counting-scheduler.js';

const CALLS = 3_000;

it('thousands of calls that were paid, refused, failed or left leave nothing in a budget', { timeout: 60_000 }, () => {
  const clock = new CountingScheduler();
  const budget = createBudget({ limits: [{ tokens: 1e9 }, { key: 'acme', tokens: 40, windowMs: 5 }], scheduler: clock });
  const bad = throwError(() => Object.assign(new Error('bad'), { status: 401 }));
  const answer = (request: string) => (request === 'bad' ? bad : request === 'never' ? NEVER : of(request));
  const shared = { budget, scheduler: clock, retry: false } as const;
  const models = accountedCaller({ call: { send: answer, stream: answer, cost: () => 10 }, ...shared });
  const embedder = createEmbedder({
    call: (texts) => of(texts.map(() => [1])),
    limiter: createAccount({ budget, scheduler: clock }),
    scheduler: clock,
  });
  const cost = () => ({ inputTokens: 10 });
  const tool = {
    name: 'ask',
    description: 'Asks.',
    parameters: z.string(),
    cost,
    execute: (request: unknown) => answer(String(request)),
  };
  const runner = createToolRunner({ tools: [tool], ...shared });
  const leaks = leakCheck({ scheduler: clock, holders: { models } });
  const ignore = { error: () => undefined };
  let refused = 0;
  const counting = {
    error: (error: unknown) => {
      if ((error as { readonly code?: unknown }).code === 'FLOW_BUDGET_EXCEEDED') refused++;
    },
  };
  try {
    for (let n = 0; n < CALLS; n += 10) {
      const left = [
        models.call('never').subscribe(ignore),
        models.stream('never').subscribe(ignore),
        runner.run([{ id: 'a', name: 'ask', input: 'never' }]).subscribe(),
      ];
      for (let i = 0; i < 3; i++) models.call('good', { key: 'acme' }).subscribe(counting);
      models.call('never', { key: 'acme' }).subscribe(counting).unsubscribe();
      models.call('bad').subscribe(ignore);
      embedder.embed(`text ${String(n)}`).subscribe(ignore);
      runner.run([{ id: 'b', name: 'ask', input: 'good' }]).subscribe();
      for (const each of left) each.unsubscribe();
      // Windows end while calls are under way.
      clock.maxFrames = clock.frame + 3;
      clock.flush();
    }
    clock.maxFrames = Infinity;
    clock.flush();
    expect(leaks.left()).toEqual([]);
    expect(refused).toBeGreaterThan(100);
    expect(budget.snapshot()).toMatchObject({ executing: 0, inFlightTokens: 0, limits: [{ inFlight: 0 }, { inFlight: 0 }] });
    expect(budget.snapshot().spentTokens).toBeGreaterThan(CALLS);
  } finally {
    leaks[Symbol.dispose]();
  }
});
