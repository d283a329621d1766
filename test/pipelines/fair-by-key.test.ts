import type { Observable } from 'rxjs';
import { merge, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Limiter } from '../../operators/index.js';
import { childOf, createLimiter, lanes } from '../../operators/index.js';
import { createAccount } from '../../src/account/create-account.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { after, calls, tool } from './tool-kit.js';

const BUSY = 200;

/** Where the permits come from. */
const limits: Record<string, (slots: number) => { readonly limiter: Limiter } | { readonly concurrency: number }> = {
  'a limiter of its own': (concurrency) => ({ concurrency }),
  'an account': (concurrency) => ({ limiter: createAccount({ concurrency }) }),
  'lanes that keys share': (concurrency) => ({
    limiter: createLimiter({ concurrency, queue: lanes([{ name: 'only' }], { key: ({ key }) => key }) }),
  }),
  'a child of an account': (concurrency) => ({ limiter: childOf(createAccount({ concurrency })) }),
  'some slots of an account': (concurrency) => ({ limiter: createAccount({ concurrency: 20 }), concurrency }),
};

/** Makes calls of A, and then of B; answers whose were sent, one letter each. */
type Asks = (limit: object, asks: { readonly a: number; readonly b: number }, sent: (who: string) => void) => Observable<unknown>;

const pipelines: Record<string, Asks> = {
  'calls of a model': (limit, { a, b }, sent) => {
    const models = accountedCaller({
      call: (who: string) => {
        sent(who);
        return timer(10);
      },
      ...limit,
    });
    const of = (who: string, count: number) => Array.from({ length: count }, () => models.call(who, { key: who, lane: lastLane(limit) }));
    return merge(...of('A', a), ...of('B', b));
  },
  'streams of a model': (limit, { a, b }, sent) => {
    const models = accountedCaller({
      call: {
        send: (who: string) => who,
        stream: (who: string) => {
          sent(who);
          return timer(10);
        },
      },
      ...limit,
    });
    const of = (who: string, count: number) => Array.from({ length: count }, () => models.stream(who, { key: who, lane: lastLane(limit) }));
    return merge(...of('A', a), ...of('B', b));
  },
  'calls of a tool': (limit, { a, b }, sent) => {
    const runner = createToolRunner({ tools: [noting('t', sent)], ...limit });
    return merge(
      runner.run(
        calls(a, 't', () => 'A'),
        { key: 'A' },
      ),
      runner.run(
        calls(b, 't', () => 'B'),
        { key: 'B' },
      ),
    );
  },
  'calls of two tools': (limit, { a, b }, sent) => {
    const runner = createToolRunner({ tools: [noting('t', sent), noting('u', sent)], ...limit });
    const both = [...calls(a / 2, 't', () => 'A'), ...calls(a / 2, 'u', () => 'A')];
    return merge(
      runner.run(both, { key: 'A' }),
      runner.run(
        calls(b, 'u', () => 'B'),
        { key: 'B' },
      ),
    );
  },
  'calls inside of tools': (limit, { a, b }, sent) => {
    const batch = tool('batch', (inside, { run }) => run(inside as ReturnType<typeof calls>), { runsTools: true });
    const runner = createToolRunner({ tools: [noting('t', sent), batch], ...limit });
    const of = (who: string, count: number) => runner.run([{ id: who, name: 'batch', input: calls(count, 't', () => who) }], { key: who });
    return merge(of('A', a), of('B', b));
  },
};

function noting(name: string, sent: (who: string) => void) {
  return tool(name, (who) => {
    sent(who as string);
    return after(10, 'done');
  });
}

function lastLane(limit: object): string {
  return 'limiter' in limit ? ((limit.limiter as Limiter).lanes?.at(-1) as string) : 'background';
}

describe.each(Object.entries(pipelines))('%s', (_what, asks) => {
  it.each(Object.entries(limits))('share %s by their keys: with 200 of A waiting, B is served within two grants', (_whose, limit) => {
    for (const slots of [1, 3]) {
      const sent: string[] = [];
      virtualTime(({ flush }) => {
        asks(limit(slots), { a: BUSY, b: 20 }, (who) => sent.push(who)).subscribe();
        flush();
      });
      const waited = sent.slice(slots);
      expect(waited.indexOf('B')).toBeLessThan(2);
      expect(waited.slice(0, 40).filter((who) => who === 'B').length).toBeGreaterThanOrEqual(19);
      expect(sent.length).toBe(BUSY + 20);
    }
  });
});

describe('without keys', () => {
  it.each(Object.entries(limits))('calls of %s go in the order they came', (_whose, limit) => {
    virtualTime(({ flush }) => {
      const sent: number[] = [];
      const given = limit(2);
      const models = accountedCaller({
        call: (n: number) => {
          sent.push(n);
          return timer(10);
        },
        ...given,
      });
      const inOrder = Array.from({ length: 50 }, (_, n) => n);
      merge(...inOrder.map((n) => models.call(n, { lane: lastLane(given) }))).subscribe();
      flush();
      expect(sent).toEqual(inOrder);
    });
  });
});

/** An embedder takes the share as a limiter of its own below the account. */
function shareOf({ limiter, concurrency }: { readonly limiter?: Limiter; readonly concurrency?: number }): Limiter {
  return concurrency === undefined ? (limiter as Limiter) : childOf(limiter as Limiter, { concurrency });
}

const sharing: Record<string, (limit: object, start: () => Observable<unknown>) => Observable<unknown>> = {
  createToolRunner: (limit, start) => createToolRunner({ tools: [tool('t', start)], ...limit }).run(calls(6, 't')),
  createEmbedder: (limit, start) => {
    const embedder = createEmbedder({ call: () => start() as Observable<number[][]>, maxSize: 1, limiter: shareOf(limit) });
    return merge(...calls(6, 't').map(({ id }) => embedder.embed(id, { lane: 'user' })));
  },
};

it.each(Object.entries(sharing))('%s takes only so many slots of a shared limiter as its `concurrency` says', (_name, make) => {
  virtualTime(({ advance }) => {
    const limiter = createAccount({ concurrency: 5 });
    let running = 0;
    const start = () => {
      running++;
      return timer(1000);
    };
    const one = make({ limiter, concurrency: 2 }, start).subscribe();
    advance(100);
    expect([running, limiter.executing]).toEqual([2, 2]);
    const other = make({ limiter }, start).subscribe();
    advance(100);
    expect([running, limiter.executing]).toEqual([5, 5]);
    one.unsubscribe();
    other.unsubscribe();
    advance(2000);
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });
});
