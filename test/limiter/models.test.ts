import { lastValueFrom, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { AccountOptions, Limiter } from '../../operators/index.js';
import { createAccount, createLimiter, FlowConfigError, heldBy, isFlowError } from '../../operators/index.js';

const account = (options: AccountOptions = {}): Limiter =>
  createAccount({
    concurrency: 4,
    headroom: 1,
    burst: 1,
    burstSeconds: 1,
    lanes: [{ name: 'user', reserve: 0 }, 'normal', 'background'],
    models: [
      { model: 'slow', requestsPerMinute: 60 },
      { model: ['a', 'b'], concurrency: 1 },
    ],
    ...options,
  });

describe('models of an account', () => {
  it('that are slow delay no other', () => {
    virtualTime(({ now, flush }) => {
      const limiter = account();
      const at: Record<string, number[]> = { slow: [], fast: [] };
      for (let i = 0; i < 5; i++) {
        for (const model of ['slow', 'fast'])
          limiter.run(() => of(1), { model, lane: model === 'slow' ? 'user' : 'background' }).subscribe(() => at[model]?.push(now()));
      }
      flush();
      expect(at).toEqual({ slow: [0, 1000, 2000, 3000, 4000], fast: [0, 0, 0, 0, 0] });
    });
  });

  it('share limits when they are in one pool, and those of the account with all others', () => {
    const limiter = account();
    const held = ['a', 'b', 'slow', undefined, 'other', 'more'].map((model) =>
      limiter.tryAcquire({ ...(model !== undefined && { model }) }),
    );
    expect(held.map((lease) => lease !== undefined)).toEqual([true, false, true, true, true, false]);
    expect(limiter.executing).toBe(4);
    for (const lease of held) lease?.release();
    expect(limiter.snapshot()).toMatchObject({
      executing: 0,
      models: [{ model: ['slow'] }, { model: ['a', 'b'], executing: 0, concurrency: 1 }],
    });
  });

  it('wait in the order of lanes and keys, within a model and across', () => {
    virtualTime(({ flush }) => {
      const limiter = createAccount({ concurrency: 1, models: [{ model: 'a', concurrency: 1 }, { model: 'b' }] });
      const first = limiter.tryAcquire();
      const order: string[] = [];
      const ask = (model: string, lane: string, key: string): void => {
        limiter.run(() => of(1), { model, lane, key }).subscribe(() => order.push(`${lane}${model}${key}`));
      };
      ask('a', 'background', '1');
      ask('a', 'background', '1');
      ask('a', 'background', '2');
      ask('b', 'user', '1');
      ask('a', 'user', '1');
      first?.release();
      flush();
      expect(order.slice(0, 2).sort()).toEqual(['usera1', 'userb1']);
      expect(order.slice(2)).toEqual(['backgrounda1', 'backgrounda2', 'backgrounda1']);
    });
  });

  it('are found by the id of a job, which no two may share', async () => {
    const limiter = account();
    limiter.pause();
    const one = limiter.acquireAsync({ id: 1, model: 'a', lane: 'background' });
    await expect(limiter.acquireAsync({ id: 1, model: 'slow' })).rejects.toThrow(FlowConfigError);
    expect([limiter.move(1, 'user'), limiter.move(2, 'user')]).toEqual([true, false]);
    expect(limiter.snapshot()).toMatchObject({ queued: 1 });
    expect([limiter.remove(1), limiter.remove(1)]).toEqual([true, false]);
    expect(isFlowError(await one.catch((error: unknown) => error), 'FLOW_CLEARED')).toBe(true);
    const two = limiter.acquireAsync({ model: 'slow' }).catch((error: unknown) => error);
    limiter.clear();
    expect(isFlowError(await two, 'FLOW_CLEARED')).toBe(true);
  });

  it('learn for themselves when they have limits, and else for the account', () => {
    virtualTime(() => {
      const limiter = account();
      const headers = { 'x-ratelimit-limit-requests': '30', 'x-ratelimit-remaining-requests': '20' };
      limiter.tryAcquire({ model: 'slow' })?.observe({ status: 200, headers });
      limiter.observe({ status: 429, headers: { 'retry-after': '5' } }, { model: 'a' });
      const { requestsPerMinute, pausedForMs, models = [] } = limiter.snapshot();
      expect([requestsPerMinute, pausedForMs]).toEqual([Infinity, 0]);
      expect(models.map((each) => [each.requestsPerMinute, each.pausedForMs])).toEqual([
        [30, 0],
        [Infinity, 5000],
      ]);
      limiter.tryAcquire({ model: 'other' })?.observe({ status: 200, headers });
      expect(limiter.snapshot().requestsPerMinute).toBe(30);
    });
  });

  it('are remembered by `save`', () => {
    virtualTime(() => {
      const options = { models: [{ model: 'day', requestsPerDay: 5 }] };
      const first = account(options);
      first.tryAcquire({ model: 'day' })?.release();
      const saved: unknown = JSON.parse(JSON.stringify(first.save()));
      const second = account({ ...options, restore: saved as ReturnType<Limiter['save']> });
      expect(second.snapshot().models?.[0]?.requests).toBe(4);
    });
  });

  it('give bidders their permits, end with the account, and see work that waits for itself', async () => {
    const limiter = account();
    let granted = 0;
    const bidder = { model: 'a', granted: () => granted++, refused: () => undefined };
    limiter.enlist(bidder);
    limiter.enlist(bidder);
    expect([granted, limiter.snapshot().queued]).toEqual([1, 1]);
    const drained = account();
    const inner = drained.runAsync(({ lease }) => drained.runAsync(() => 1, { model: 'b', holder: heldBy(lease) }), { model: 'a' });
    expect(isFlowError(await inner.catch((error: unknown) => error), 'FLOW_NESTED_ACQUIRE')).toBe(true);
    expect(await lastValueFrom(drained.run(() => of(5), { model: 'slow' }))).toBe(5);
    expect(await drained.runAsync(() => 6, { model: 'b' })).toBe(6);
    await drained.pass({ model: 'b' });
    expect(await drained.wrap((value: number) => value, { model: 'b' })(7)).toBe(7);
    await drained.whenIdle();
    await drained.drain();
    await expect(drained.acquireAsync({ model: 'a' })).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
  });

  it('are nothing to a limiter without', () => {
    expect(createLimiter().tryAcquire({ model: 'a' })).toBeDefined();
  });

  it.each([
    ['models[0].model', 'a name, or a list of at least one name', [{ model: [] }]],
    ['models[0].model', 'a non-empty string', [{ model: '' }]],
    ['models[0].concurrency', 'a whole number >= 1 or Infinity', [{ model: 'a', concurrency: 0 }]],
    ['models[0].requestsPerDay', 'a number > 0 or Infinity', [{ model: 'a', requestsPerDay: -1 }]],
  ])('are refused with a bad %s: %s', (option, expected, models) => {
    expect(() => createAccount({ models })).toThrow(`createAccount: expected \`${option}\` to be ${expected}`);
  });

  it.each([
    [[{ model: 'a' }, { model: ['b', 'a'] }], '`models` names `a` twice. Merge the two entries.'],
    [[{ model: 'a', burst: 1 } as never], 'unknown option `models[0].burst`. Known options: model, concurrency, '],
  ])('are refused: %j', (models, said) => {
    expect(() => createAccount({ models })).toThrow(`createAccount: ${said}`);
  });
});
