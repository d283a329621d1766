import { describe, expect, it } from 'vitest';
import { createLimiter } from '../../operators/index.js';
import type { EachCall } from '../../src/adapters/support/held-each.js';
import { heldEach } from '../../src/adapters/support/held-each.js';
import type { ConnectionRules } from '../../src/adapters/support/held-rules.js';
import { heldRules } from '../../src/adapters/support/held-rules.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

describe('heldEach', () => {
  expectNoUnhandledRejections();

  const each = (
    rules: ConnectionRules<unknown>,
    open: EachCall<number>['open'],
    more: Partial<EachCall<number>> & { signal?: AbortSignal } = {},
  ) => {
    const { signal, look = () => undefined } = more;
    return heldEach(heldRules('each', rules, []), signal ? { signal } : {}, { open, look });
  };
  const drained = async (values: AsyncIterable<number>): Promise<void> => {
    for await (const value of values) expect(value).toBe(1);
  };

  it('ends at the deadline, though the source knows nothing of it', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const silent = async function* () {
      yield 1;
      await new Promise(() => undefined);
    };
    await expect(drained(each({ limiter, deadlineMs: 20 }, silent))).rejects.toMatchObject({ code: 'FLOW_DEADLINE' });
    await expect.poll(() => limiter.executing).toBe(0);
  });

  it('leaves no rejection behind when a source that came too late cannot be left', async () => {
    const controller = new AbortController();
    const late = {
      next: async () => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        return { done: false, value: 1 };
      },
      return: () => Promise.reject(new Error('not now')),
    };
    const values = drained(each({}, () => ({ [Symbol.asyncIterator]: () => late }), { signal: controller.signal }));
    setTimeout(() => {
      controller.abort();
    }, 5);
    await expect(values).rejects.toMatchObject({ name: 'AbortError' });
    await new Promise((resolve) => setTimeout(resolve, 30));
  });

  it('leaves its source when looking at a value fails', async () => {
    let left = 0;
    const source = {
      next: () => Promise.resolve({ done: false, value: 1 }),
      return: () => Promise.resolve({ done: true as const, value: ++left }),
    };
    const failure = new Error('cannot look');
    const look = () => {
      throw failure;
    };
    await expect(drained(each({}, () => ({ [Symbol.asyncIterator]: () => source }), { look }))).rejects.toBe(failure);
    expect(left).toBe(1);
  });
});
