import { readFileSync } from 'node:fs';
import type { Observable } from 'rxjs';
import { concat, firstValueFrom, from, map, mergeMap, NEVER, of, Subject, throwError, timer } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import * as bottleneckAfter from '../../examples/migrating/bottleneck-after.js';
import * as bottleneckBefore from '../../examples/migrating/bottleneck-before.js';
import * as bufferTimeAfter from '../../examples/migrating/buffer-time-after.js';
import * as bufferTimeBefore from '../../examples/migrating/buffer-time-before.js';
import * as dataloaderAfter from '../../examples/migrating/dataloader-after.js';
import * as dataloaderBefore from '../../examples/migrating/dataloader-before.js';
import * as pQueueAfter from '../../examples/migrating/p-queue-after.js';
import * as pQueueBefore from '../../examples/migrating/p-queue-before.js';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent } from '../../operators/index.js';
import { mostInAnyWindow } from '../support/strict-window.js';

/** The table of a guide: what was measured, before and after. Measured here, so that the guide cannot go out of date. */
function saysSo(guide: string, measured: Readonly<Record<string, readonly [before: unknown, after: unknown]>>): void {
  const page = readFileSync(new URL(`../../docs/guides/migrating-from-${guide}.md`, import.meta.url), 'utf8');
  const rows = Object.entries(measured).map(([what, [before, after]]) => `| ${what} | ${String(before)} | ${String(after)} |`);
  expect(page.split('\n')).toEqual(expect.arrayContaining(rows));
}

const names = (count: number, prefix = 'text'): string[] => Array.from({ length: count }, (_, index) => `${prefix} ${index}`);

// Minutes of virtual time for thousands of calls, on a machine that may be busy.
vi.setConfig({ testTimeout: 60_000 });

/** A burst larger than any default bound. */
const BURST = 3000;

const startsOf = (provider: { readonly calls: readonly { readonly startedAt: number }[] }): number[] =>
  provider.calls.map(({ startedAt }) => startedAt);

/** An account that allows 20 requests and 1000 tokens in any second, wherever it begins, and refuses what is above. */
const TWENTY_A_SECOND = { requestsPerMinute: 1200, discipline: 'sliding', burstSeconds: 1, latencyMs: 100 } as const;

describe('from bufferTime and mergeMap', () => {
  interface Seen {
    readonly calls: readonly (readonly string[])[];
    readonly values: number;
    readonly rejected: number;
    readonly end: string;
    readonly events: readonly FlowEvent[];
  }

  function run(texts: () => Observable<string>, after: boolean, leaveAtMs = 10_000): Seen {
    const provider = fakeProvider({ answer: (text: string) => text.length, poisoned: ['bad'], namesPoison: false, latencyMs: 100 });
    const seen = { values: 0, rejected: 0, end: 'none', events: [] as FlowEvent[] };
    virtualTime(({ advance }) => {
      const end = { error: (error: unknown) => (seen.end = String(error)), complete: () => (seen.end = 'complete') };
      const subscription = after
        ? bufferTimeAfter
            .embedAll(texts(), provider.work, (event) => seen.events.push(event))
            .subscribe({ next: ({ status }) => (status === 'fulfilled' ? seen.values++ : seen.rejected++), ...end })
        : bufferTimeBefore.embedAll(texts(), provider.work).subscribe({ next: () => seen.values++, ...end });
      advance(leaveAtMs);
      subscription.unsubscribe();
    });
    return { ...seen, calls: provider.calls.map(({ input }) => input) };
  }

  const both = (texts: () => Observable<string>, leaveAtMs?: number): [Seen, Seen] => [
    run(texts, false, leaveAtMs),
    run(texts, true, leaveAtMs),
  ];
  const apart = (texts: readonly string[], everyMs: number): Observable<string> =>
    from(texts).pipe(mergeMap((text, index) => timer(index * everyMs).pipe(map(() => text))));

  it('keeps what a bad item, a failing source and leaving cost before', () => {
    const oneBad = both(() => apart(['bad', ...names(99)], 7));
    const idle = both(() => concat(of('a'), NEVER), 5000);
    const failing = both(() =>
      concat(
        apart(names(3), 1),
        throwError(() => new Error('the source broke')),
      ),
    );
    const left = both(() => concat(of('a', 'b', 'c'), NEVER), 20);

    saysSo('buffer-time', {
      'one bad text among 100: texts with a vector': [oneBad[0].values, oneBad[1].values],
      'one bad text among 100: texts with an error of their own': [oneBad[0].rejected, oneBad[1].rejected],
      'one bad text among 100: the stream ends with': [oneBad[0].end, oneBad[1].end],
      '5 s with one text: calls made': [idle[0].calls.length, idle[1].calls.length],
      'the source fails with 3 texts waiting: texts with a vector': [failing[0].values, failing[1].values],
    });
    expect(oneBad[0].end).toBe('FakeProviderError: one of the inputs is invalid');
    expect([oneBad[1].values, oneBad[1].rejected, oneBad[1].end]).toEqual([99, 1, 'complete']);
    expect(idle[0].calls.filter((texts) => texts.length === 0)).toHaveLength(idle[0].calls.length - 1);
    expect(idle[1].calls).toEqual([['a']]);
    expect(failing.map(({ values, end }) => ({ values, end }))).toEqual([
      { values: 0, end: 'Error: the source broke' },
      { values: 3, end: 'Error: the source broke' },
    ]);
    // Leaving drops the waiting texts on either side; Sluice also reports them as cancelled.
    expect(left.map(({ calls }) => calls.length)).toEqual([0, 0]);
    expect(left[1].events.find(({ type }) => type === 'cancelled')).toMatchObject({ count: 3 });
  });

  it('loses nothing of a burst, and keeps to the calls at a time', () => {
    const burst = (after: boolean) => {
      const provider = fakeProvider({ answer: (text: string) => text.length, latencyMs: 100 });
      const answered = virtualTime(({ flush }) => {
        let count = 0;
        const texts = from(names(BURST));
        if (after) bufferTimeAfter.embedAll(texts, provider.work).subscribe(({ status }) => (count += status === 'fulfilled' ? 1 : 0));
        else bufferTimeBefore.embedAll(texts, provider.work).subscribe(() => count++);
        flush();
        return count;
      });
      return { answered, most: provider.maxInFlight };
    };
    const [before, after] = [burst(false), burst(true)];
    saysSo('buffer-time', {
      '3000 texts at once: texts with a vector': [before.answered, after.answered],
      '3000 texts at once: most calls at a time, 4 wanted': [before.most, after.most],
    });
    expect(after).toEqual({ answered: BURST, most: 4 });
  });

  it('keeps what waits when the source is ended instead of the subscription', () => {
    const texts = new Subject<string>();
    const values = virtualTime(({ flush }) => {
      let count = 0;
      bufferTimeAfter.embedAll(texts, (batch) => timer(100).pipe(map(() => batch.map(() => 1)))).subscribe(() => count++);
      texts.next('a');
      texts.next('b');
      texts.complete();
      flush();
      return count;
    });
    expect(values).toBe(2);
  });
});

describe('with promises and timers', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  /** Lets the time pass that a promise needs, and tells what became of each. */
  async function settled<T>(promises: readonly Promise<T>[], ms: number): Promise<PromiseSettledResult<T>[]> {
    const all = Promise.allSettled(promises);
    await vi.advanceTimersByTimeAsync(ms);
    return all;
  }

  const fulfilled = (results: readonly PromiseSettledResult<unknown>[]): number =>
    results.filter(({ status }) => status === 'fulfilled').length;

  it('p-queue: one account behind two queues', async () => {
    const shortOnes = names(BURST - 200, 'a short text');
    const pages = names(200).map(() => 'a page of four hundred characters in all'.repeat(10));
    const measure = async (create: typeof pQueueBefore.createQueues) => {
      const account = fakeProvider({ answer: (prompt: string) => prompt.slice(0, 4), tokensPerMinute: 60_000, ...TWENTY_A_SECOND });
      const queues = create((prompt, signal) => firstValueFrom(account.workOne(prompt, signal && { signal })));
      const index = settled(
        [...shortOnes, ...pages].map((text) => queues.index(text)),
        500,
      );
      await vi.advanceTimersByTimeAsync(500);
      const chat = await settled(
        names(20).map((question) => queues.chat(question)),
        300_000,
      );
      return {
        index: fulfilled(await index),
        chat: fulfilled(chat),
        refused: account.refused,
        most: mostInAnyWindow(startsOf(account), 1000),
        mostTokens: mostInAnyWindow(
          startsOf(account),
          1000,
          account.calls.map(({ tokens }) => tokens),
        ),
      };
    };
    const before = await measure(pQueueBefore.createQueues);
    const after = await measure(pQueueAfter.createQueues);
    saysSo('p-queue', {
      'index calls answered, of 3000': [before.index, after.index],
      'chat calls answered, of 20': [before.chat, after.chat],
      'calls refused with 429': [before.refused, after.refused],
      'most calls started in any second, 20 allowed': [before.most, after.most],
      'most tokens in any second, 1000 allowed': [before.mostTokens, after.mostTokens],
    });
    expect(before.refused).toBeGreaterThan(0);
    expect(before.chat + before.index).toBe(BURST + 20 - before.refused);
    expect(after).toMatchObject({ chat: 20, index: BURST, refused: 0 });
    expect(after.most).toBeLessThanOrEqual(20);
    expect(after.mostTokens).toBeLessThanOrEqual(1000);
  });

  it('Bottleneck: a reservoir that is refilled at one blow, and batches without results', async () => {
    const texts = names(BURST);
    texts[7] = 'bad';
    const provide = () =>
      fakeProvider({
        answer: (text: string) => text.length,
        poisoned: ['bad'],
        namesPoison: false,
        ...TWENTY_A_SECOND,
      });
    const before = await (async () => {
      const provider = provide();
      let stored = 0;
      const embedder = bottleneckBefore.createEmbedder(
        (batch) => firstValueFrom(provider.work(batch)),
        (vectors) => (stored += vectors.length),
      );
      await vi.advanceTimersByTimeAsync(900);
      const told = await settled(texts.map(embedder.add), 60_000);
      void embedder.close();
      return {
        stored,
        refused: provider.refused,
        most: mostInAnyWindow(startsOf(provider), 1000),
        told,
        failedCalls: embedder.failedCalls(),
      };
    })();
    const after = await (async () => {
      const provider = provide();
      const embedder = bottleneckAfter.createEmbedder(provider.work);
      await vi.advanceTimersByTimeAsync(900);
      const told = await settled(
        texts.map((text) => embedder.loadAsync(text)),
        60_000,
      );
      embedder.close();
      return { stored: fulfilled(told), refused: provider.refused, most: mostInAnyWindow(startsOf(provider), 1000), told };
    })();
    saysSo('bottleneck', {
      'texts with a vector, of 3000': [before.stored, after.stored],
      'calls refused with 429': [before.refused, after.refused],
      'most calls started in any second, 20 allowed': [before.most, after.most],
      'callers told that their text failed': [BURST - fulfilled(before.told), BURST - fulfilled(after.told)],
    });
    expect(before.failedCalls).toBe(before.refused + 1);
    expect(before.told.every((result) => result.status === 'fulfilled' && result.value === undefined)).toBe(true);
    expect([after.stored, after.refused]).toEqual([BURST - 1, 0]);
    expect(after.most).toBeLessThanOrEqual(20);
    expect(after.told[7]?.status).toBe('rejected');
    expect(after.told[8]).toEqual({ status: 'fulfilled', value: 'text 8'.length });
  });

  describe('DataLoader', () => {
    const users = (poisoned: readonly string[] = []) =>
      fakeProvider({ answer: (id: number) => ({ id, name: `user ${id}` }), latencyMs: 100, poisoned, namesPoison: false });
    const ids = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

    it('loses a batch, opens many calls, cannot be stopped, gathers a tick only and forgets nothing', async () => {
      const cacheMap = new Map<number, Promise<dataloaderBefore.User>>();
      const backend = users(['7']);
      const loader = dataloaderBefore.createUsers((keys) => firstValueFrom(backend.work(keys)), cacheMap);
      const oneBad = fulfilled(await settled(ids(20).map(loader.load), 1000));
      const early = backend.calls.length;
      for (const id of [100, 101, 102]) {
        void loader.load(id);
        await vi.advanceTimersByTimeAsync(3);
      }
      await vi.advanceTimersByTimeAsync(1000);
      const spread = backend.calls.length - early;
      const found = fulfilled(
        await settled(
          ids(BURST).map((id) => loader.load(1000 + id)),
          10_000,
        ),
      );
      const before = { oneBad, spread, found, most: backend.maxInFlight, kept: cacheMap.size };

      const batcherBackend = users(['7']);
      const batcher = dataloaderAfter.createUsers(batcherBackend.work);
      const oneBadAfter = fulfilled(
        await settled(
          ids(20).map((id) => batcher.loadAsync(id)),
          1000,
        ),
      );
      const earlyAfter = batcherBackend.calls.length;
      const spreadLoads = [100, 101, 102].map(async (id, index) => {
        await new Promise((resolve) => setTimeout(resolve, 3 * index));
        return batcher.loadAsync(id);
      });
      await settled(spreadLoads, 1000);
      const spreadAfter = batcherBackend.calls.length - earlyAfter;
      const foundAfter = fulfilled(
        await settled(
          ids(BURST).map((id) => batcher.loadAsync(1000 + id)),
          10_000,
        ),
      );
      const after = {
        oneBad: oneBadAfter,
        spread: spreadAfter,
        found: foundAfter,
        most: batcherBackend.maxInFlight,
        kept: batcher.snapshot().cached,
      };

      saysSo('dataloader', {
        'users found, of 20 with a bad one among them': [before.oneBad, after.oneBad],
        'calls for 3 loads that come 3 ms apart': [before.spread, after.spread],
        'users found, of 3000 asked for at once': [before.found, after.found],
        'most calls at a time for those, 4 wanted': [before.most, after.most],
        'users kept in memory, of 3003 found': [before.kept, after.kept],
      });
      expect(before).toEqual({ oneBad: 0, spread: 3, found: BURST, most: 150, kept: 3003 });
      expect(after).toEqual({ oneBad: 19, spread: 1, found: BURST, most: 4, kept: 1000 });
    });

    it('a load that is left goes on to the end under DataLoader; here its call is stopped', async () => {
      const backend = users();
      const loader = dataloaderBefore.createUsers((keys) => firstValueFrom(backend.work(keys)), new Map());
      void loader.load(1);
      await vi.advanceTimersByTimeAsync(1000);
      expect(backend.calls.map(({ outcome }) => outcome)).toEqual(['ok']);

      const request = new AbortController();
      const batcherBackend = users();
      const batcher = dataloaderAfter.createUsers(batcherBackend.work);
      const answer = batcher.loadAsync(1, { signal: request.signal }).catch((error: unknown) => (error as Error).name);
      await vi.advanceTimersByTimeAsync(50);
      request.abort();
      await vi.advanceTimersByTimeAsync(1000);
      expect(await answer).toBe('AbortError');
      expect(batcherBackend.calls.map(({ outcome }) => outcome)).toEqual(['cancelled']);
    });
  });
});
