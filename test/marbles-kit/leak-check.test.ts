import { promisify } from 'node:util';
import { asyncScheduler, interval, NEVER, of, Subject, throwError } from 'rxjs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { LeakError, leakCheck } from '../../marbles/leak-check.js';
import { virtualTime } from '../../marbles/virtual.js';
import { createWorker } from '../../marbles/worker.js';
import { createLimiter } from '../../operators/index.js';

afterEach(() => {
  vi.useRealTimers();
});

describe('leakCheck', () => {
  it('says nothing when nothing is left', async () => {
    const leaks = leakCheck();
    const controller = new AbortController();
    const listener = (): void => undefined;
    controller.signal.addEventListener('abort', listener);
    controller.signal.removeEventListener('abort', listener);
    clearTimeout(setTimeout(() => undefined, 1000));
    clearInterval(setInterval(() => undefined, 1000));
    clearImmediate(setImmediate(() => undefined));
    await new Promise((resolve) => setTimeout(resolve, 1));
    await promisify(setTimeout)(1);
    await new Promise((resolve) => setImmediate(resolve));
    expect(leaks.left()).toEqual([]);
    leaks.verify();
  });

  it('names timers, their delay and where they were set', () => {
    const leaks = leakCheck();
    const timers = [setTimeout(() => undefined, 1234), setInterval(() => undefined, 77)];
    const immediate = setImmediate(() => undefined);
    const found = leaks.left();
    for (const timer of timers) clearTimeout(timer);
    clearImmediate(immediate);
    leaks.verify();
    expect(found).toEqual([
      expect.stringMatching(/^a timeout of 1234 ms, set at .*leak-check\.test\.ts:\d+:\d+/),
      expect.stringMatching(/^an interval of 77 ms, set at .*leak-check\.test\.ts/),
      expect.stringMatching(/^an immediate, set at .*leak-check\.test\.ts/),
    ]);
  });

  it('sees the timers of rxjs in real time', () => {
    const leaks = leakCheck();
    const ticks = interval(5000).subscribe();
    expect(leaks.left()).toEqual([expect.stringContaining('interval of 5000 ms')]);
    ticks.unsubscribe();
    leaks.verify();
  });

  it('names listeners of signals that have not fired', () => {
    const leaks = leakCheck();
    const fired = new AbortController();
    fired.signal.addEventListener('abort', () => undefined);
    fired.abort();
    const waiting = new AbortController();
    const listener = (): void => undefined;
    waiting.signal.addEventListener('abort', listener);
    waiting.signal.addEventListener('abort', listener);
    waiting.signal.addEventListener('change', listener);
    new EventTarget().addEventListener('abort', listener);
    expect(leaks.left()).toEqual([expect.stringMatching(/^an abort listener, added at .*leak-check\.test\.ts/)]);
    expect(leaks.verify).toThrow(LeakError);
    expect(leaks.verify).toThrow(/^left behind:\n {2}- an abort listener/);
  });

  it('names actions of a virtual clock, with the time they are due', () => {
    virtualTime(({ scheduler }) => {
      const earlier = asyncScheduler.schedule(() => undefined, 5);
      const leaks = leakCheck({ scheduler });
      const action = asyncScheduler.schedule(() => undefined, 70);
      expect(leaks.left()).toEqual(['a scheduler action due at 70 ms']);
      action.unsubscribe();
      leaks.verify();
      earlier.unsubscribe();
    });
  });

  it('names subscriptions that neither ended nor were left', () => {
    const leaks = leakCheck();
    leaks.watch('of', of(1, 2)).subscribe();
    leaks
      .watch(
        'broken',
        throwError(() => new Error('no')),
      )
      .subscribe({ error: () => undefined });
    const left = leaks.watch('never', NEVER).subscribe();
    const second = leaks.watch('second', new Subject()).subscribe();
    expect(leaks.left()).toEqual(['a subscription to never', 'a subscription to second']);
    left.unsubscribe();
    expect(leaks.verify).toThrow('left behind:\n  - a subscription to second');
    second.unsubscribe();
  });

  it('names permits, waiters and calls of the holders it was given, beyond those from before', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 2 });
      const first = limiter.tryAcquire();
      const provider = fakeProvider({ answer: (text: string) => text, latencyMs: 5 });
      const worker = createWorker({ marbles: '-(r|)', answer: () => 1 });
      const leaks = leakCheck({ holders: { limiter, provider, worker } });
      const second = limiter.tryAcquire();
      const waiter = limiter.acquire().subscribe();
      provider.workOne('a').subscribe();
      worker.work('a').subscribe();
      expect(leaks.left()).toEqual([
        '1 permit(s) of limiter',
        '1 waiter(s) of limiter',
        '1 call(s) under way of provider',
        '1 call(s) under way of worker',
      ]);
      waiter.unsubscribe();
      second?.release();
      flush();
      leaks.verify();
      first?.release();
    });
  });

  it('leaves the host as it was, however many checks overlap', () => {
    const host = (): unknown[] => [
      setTimeout,
      clearTimeout,
      Object.getOwnPropertyDescriptor(EventTarget.prototype, 'addEventListener')?.value,
    ];
    const before = host();
    const outer = leakCheck();
    const inner = leakCheck();
    const timer = setTimeout(() => undefined, 50);
    expect(outer.left()).toHaveLength(1);
    outer[Symbol.dispose]();
    expect(host()[0]).not.toBe(before[0]);
    clearTimeout(timer);
    inner.verify();
    expect(host()).toEqual(before);
  });

  it('is cleaned up by `using`, and keeps a replacement that other code made meanwhile', () => {
    {
      using leaks = leakCheck();
      expect(leaks.left()).toEqual([]);
      vi.useFakeTimers();
    }
    expect(vi.isFakeTimers()).toBe(true);
    const fake = setTimeout(() => undefined, 10);
    expect(vi.getTimerCount()).toBe(1);
    clearTimeout(fake);
  });
});
