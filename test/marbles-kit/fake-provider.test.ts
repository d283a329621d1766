import { asyncScheduler, firstValueFrom, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FakeProvider, FakeProviderOptions } from '../../marbles/fake-provider.js';
import { FAKE_PROVIDER_DEFAULTS, FakeProviderError, fakeProvider } from '../../marbles/fake-provider.js';
import type { VirtualClock } from '../../marbles/virtual.js';
import { virtualTime } from '../../marbles/virtual.js';
import { classifyError, FlowConfigError } from '../../operators/index.js';

const upper = (options: Partial<FakeProviderOptions<string, string>> = {}): FakeProvider<string, string> =>
  fakeProvider({ answer: (text) => text.toUpperCase(), ...options });

/** Makes calls at once and tells when and how each ended. */
function outcomes(provider: FakeProvider<string, string>, calls: readonly (readonly string[])[], { flush, now }: VirtualClock): string[] {
  const lines: string[] = [];
  for (const items of calls) {
    provider.work(items).subscribe({
      next: (results) => lines.push(`${String(now())} ${results.join('')}`),
      error: (error: unknown) => lines.push(`${String(now())} ${told(error)}`),
    });
  }
  flush();
  return lines;
}

function told(error: unknown): string {
  const { status, message } = error as FakeProviderError;
  return `${String(status)} ${message}`;
}

/** The error of a single call. */
function errorOf(provider: FakeProvider<string, string>, items: readonly string[] = ['a']): FakeProviderError {
  return virtualTime(({ flush }) => {
    let caught: unknown;
    provider.work(items).subscribe({ error: (error: unknown) => (caught = error) });
    flush();
    expect(caught).toBeInstanceOf(FakeProviderError);
    return caught as FakeProviderError;
  });
}

describe('fakeProvider', () => {
  it('takes base + perItem × items for an answer, and counts calls', () => {
    virtualTime((clock) => {
      const provider = upper({ latencyMs: { base: 40, perItem: 5 } });
      expect(outcomes(provider, [['a', 'b', 'c'], ['d']], clock)).toEqual(['45 D', '55 ABC']);
      expect(provider.calls).toEqual([
        { input: ['a', 'b', 'c'], startedAt: 0, endedAt: 55, outcome: 'ok', aborts: 0, fate: 'answered', tokens: 3 },
        { input: ['d'], startedAt: 0, endedAt: 45, outcome: 'ok', aborts: 0, fate: 'answered', tokens: 1 },
      ]);
      expect(provider).toMatchObject({ inFlight: 0, maxInFlight: 2, refused: 0 });
    });
  });

  it('takes as long as a function of its items says, and remembers so many calls', () => {
    virtualTime((clock) => {
      const provider = upper({ latencyMs: (items) => (items.includes('slow') ? 500 : 10 + items.length), poisoned: ['bad'], maxCalls: 2 });
      expect(outcomes(provider, [['a', 'b'], ['slow'], ['bad', 'c']], clock)).toEqual(['10 400 input[0] is invalid', '12 AB', '500 SLOW']);
      expect(provider.calls.map(({ input, outcome }) => `${input.join()} ${outcome}`)).toEqual(['slow ok', 'bad,c failed']);
    });
  });

  it('answers in the frame of the call without a latency, never inside subscribe', () => {
    virtualTime(({ flush, now }) => {
      const seen: string[] = [];
      upper()
        .workOne('a')
        .subscribe((text) => seen.push(`${text} at ${String(now())}`));
      expect(seen).toEqual([]);
      flush();
      expect(seen).toEqual(['A at 0']);
    });
  });

  it('refuses single items as it refuses batches', () => {
    virtualTime(({ flush }) => {
      const failures: unknown[] = [];
      upper({ poisoned: ['a'] })
        .workOne('a')
        .subscribe({ error: (error: unknown) => failures.push(error) });
      flush();
      expect(failures).toEqual([expect.objectContaining({ status: 400, message: 'input[0] is invalid' })]);
    });
  });

  it('is a new call at every subscription', () => {
    virtualTime(({ flush }) => {
      const provider = upper();
      const call = provider.work(['a']);
      expect(provider.calls).toHaveLength(0);
      call.subscribe();
      call.subscribe();
      flush();
      expect(provider.calls).toHaveLength(2);
    });
  });

  it('answers 429 with retry-after when the requests are spent, and lets in what waits that long', () => {
    virtualTime(({ advance, flush }) => {
      const provider = upper({ requestsPerMinute: 60, burstSeconds: 2 });
      const failures: FakeProviderError[] = [];
      const call = (): void => {
        provider.work(['a']).subscribe({ error: (error: unknown) => failures.push(error as FakeProviderError) });
      };
      call();
      call();
      call();
      advance(1);
      expect(failures).toHaveLength(1);
      expect(failures[0]).toMatchObject({ status: 429, headers: { 'retry-after': '1', 'retry-after-ms': '1000' } });
      expect(classifyError(failures[0], { size: 1, attempt: 1, aborted: false })).toEqual({ class: 'throttled', retryAfterMs: 1000 });
      advance(999);
      call();
      flush();
      expect(failures).toHaveLength(1);
      expect(provider.refused).toBe(1);
    });
  });

  it('counts the calls of the last minute when it slides, to the millisecond', () => {
    virtualTime(({ advance, flush }) => {
      const provider = upper({ discipline: 'sliding', requestsPerMinute: 3, tokensPerMinute: 1000, tokensOf: (text) => text.length });
      const waits: (string | undefined)[] = [];
      const call = (text: string): void => {
        provider.work([text]).subscribe({
          error: (error: unknown) => waits.push((error as FakeProviderError).headers['retry-after-ms']),
          complete: () => waits.push(undefined),
        });
        advance(0);
      };
      call('a');
      advance(10_000);
      call('b');
      call('c');
      call('d');
      advance(49_999);
      call('e');
      advance(1);
      call('f');
      call('g');
      flush();
      expect(waits).toEqual([undefined, undefined, undefined, '50000', '1', undefined, '10000']);
      expect(provider.refused).toBe(3);
    });
  });

  it('may slide over less than a minute', () => {
    virtualTime(({ advance, flush }) => {
      const provider = upper({ discipline: 'sliding', tokensPerMinute: 600, burstSeconds: 2, tokensOf: (text) => text.length });
      const call = (text: string): void => {
        provider.work([text]).subscribe({ error: () => undefined });
      };
      call('x'.repeat(20));
      advance(1999);
      call('x');
      expect(provider.refused).toBe(1);
      advance(1);
      call('x'.repeat(20));
      flush();
      expect(provider.refused).toBe(1);
    });
  });

  it('counts tokens against their own limit, by a quarter of the characters or as told', () => {
    virtualTime((clock) => {
      const provider = upper({ tokensPerMinute: 60, burstSeconds: 4 });
      expect(outcomes(provider, [['12345678', '1'], ['1'], ['1']], clock)).toEqual(['0 123456781', '0 1', '0 429 rate limit reached']);
      const told = upper({ tokensPerMinute: 60, burstSeconds: 4, tokensOf: () => 4 });
      expect(outcomes(told, [['a'], ['b']], clock)).toEqual(['0 A', '0 429 rate limit reached']);
    });
  });

  it('refuses what can never pass as too large, with both numbers', () => {
    const verdict = (provider: FakeProvider<string, string>, items: readonly string[]) =>
      classifyError(errorOf(provider, items), { size: items.length, attempt: 1, aborted: false });
    expect(verdict(upper({ tokensPerMinute: 60, burstSeconds: 2 }), ['123456789012'])).toEqual({
      class: 'tooLarge',
      tooLarge: { actual: 3, limit: 2 },
    });
    expect(verdict(upper({ maxTokens: 1 }), ['a', 'b'])).toEqual({ class: 'tooLarge', tooLarge: { actual: 2, limit: 1 } });
    expect(verdict(upper({ maxItems: 1 }), ['a', 'b'])).toMatchObject({ class: 'tooLarge' });
  });

  it('fails a call with a poisoned item in it, and names the input unless told not to', () => {
    const verdict = (provider: FakeProvider<string, string>) =>
      classifyError(errorOf(provider, ['a', 'b', 'c']), { size: 3, attempt: 1, aborted: false });
    expect(verdict(upper({ poisoned: ['b'] }))).toEqual({ class: 'itemFault', blame: [1] });
    expect(verdict(upper({ poisoned: ['b'], namesPoison: false }))).toEqual({ class: 'itemFault' });
    expect(verdict(upper({ poisoned: ['2'], idOf: (text) => String(text.charCodeAt(0) - 96) }))).toEqual({
      class: 'itemFault',
      blame: [1],
    });
  });

  it('knows items by their id', () => {
    virtualTime(({ flush }) => {
      const provider = fakeProvider({ answer: ({ id }: { id: number }) => id, poisoned: ['7'] });
      provider.work([{ id: 7 }]).subscribe({ error: () => undefined });
      flush();
      expect(provider.calls[0]).toMatchObject({ fate: 'poisoned', outcome: 'failed', tokens: 1 });
    });
  });

  it('goes wrong by chance, in the kinds and at the times it says', () => {
    virtualTime((clock) => {
      const fate = (errorRate: FakeProviderOptions<string, string>['errorRate']): string[] =>
        outcomes(upper({ latencyMs: { base: 10, perItem: 10 }, errorRate: errorRate ?? {} }), [['a']], clock);
      expect(fate({ throttled: 1 })).toEqual(['10 429 slow down']);
      expect(fate({ overloaded: 1 })).toEqual(['20 503 the provider is overloaded']);
      expect(fate({ cut: 1 })).toEqual(['30 undefined the connection was cut']);
      expect(fate({ slow: 1 })).toEqual(['230 A']);
    });
    expect(classifyError(errorOf(upper({ errorRate: { cut: 1 } })), { size: 1, attempt: 1, aborted: false })).toEqual({
      class: 'transient',
    });
  });

  it('draws the same accidents from the same seed, at about the rate it was told', () => {
    const fates = (seed: number): string[] =>
      virtualTime((clock) => {
        const provider = upper({ errorRate: { throttled: 0.1, overloaded: 0.1, cut: 0.1, slow: 0.1 }, seed });
        outcomes(
          provider,
          Array.from({ length: 1000 }, () => ['a']),
          clock,
        );
        return provider.calls.map(({ fate }) => fate);
      });
    const first = fates(7);
    expect(fates(7)).toEqual(first);
    expect(fates(8)).not.toEqual(first);
    for (const kind of ['throttled', 'overloaded', 'cut', 'slow']) {
      const share = first.filter((fate) => fate === kind).length / 1000;
      expect(share, kind).toBeGreaterThan(0.07);
      expect(share, kind).toBeLessThan(0.13);
    }
  });

  it('tells of its limits in the headers, and shows every response to the context', () => {
    const headersOf = (rateHeaders: 'openai' | 'anthropic'): unknown[] =>
      virtualTime(({ flush }) => {
        const provider = fakeProvider({
          answer: (text: string) => text,
          requestsPerMinute: 2,
          tokensPerMinute: 6000,
          tokensOf: () => 100,
          latencyMs: 50,
          rateHeaders,
        });
        const seen: unknown[] = [];
        const context = { signal: new AbortController().signal, observe: (response: unknown) => seen.push(response) };
        for (const text of ['a', 'b', 'c'])
          provider.work([text], context).subscribe({
            error: (error: unknown) => {
              const { status, headers } = error as FakeProviderError;
              seen.push({ status, headers });
            },
          });
        provider.work(['d']).subscribe({ error: () => undefined });
        flush();
        return seen;
      });
    const [first, second, shown, thrown] = headersOf('openai');
    expect(first).toEqual({
      status: 200,
      headers: {
        'x-ratelimit-limit-requests': '2',
        'x-ratelimit-remaining-requests': '1',
        'x-ratelimit-reset-requests': '30s',
        'x-ratelimit-limit-tokens': '6000',
        'x-ratelimit-remaining-tokens': '5900',
        'x-ratelimit-reset-tokens': '1s',
      },
    });
    expect(second).toMatchObject({ headers: { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1m0s' } });
    expect(shown).toMatchObject({ status: 429, headers: { 'retry-after': '30', 'x-ratelimit-remaining-requests': '0' } });
    expect(thrown).toEqual(shown);
    expect(headersOf('anthropic')[1]).toMatchObject({
      headers: {
        'anthropic-ratelimit-requests-limit': '2',
        'anthropic-ratelimit-requests-remaining': '0',
        'anthropic-ratelimit-requests-reset': '1970-01-01T00:01:00.000Z',
        'anthropic-ratelimit-tokens-remaining': '5800',
      },
    });
  });

  it('stops when its subscriber leaves', () => {
    virtualTime(({ advance }) => {
      const provider = upper({ latencyMs: 100 });
      const call = provider.work(['a']).subscribe();
      advance(30);
      expect(provider.inFlight).toBe(1);
      call.unsubscribe();
      expect(provider.inFlight).toBe(0);
      expect(provider.calls[0]).toMatchObject({ outcome: 'cancelled', endedAt: 30 });
    });
  });

  it('fails with the reason of its signal, as fetch does, also when that had aborted before', () => {
    virtualTime(({ advance }) => {
      const provider = upper({ latencyMs: 100 });
      const controller = new AbortController();
      const reasons: unknown[] = [];
      const call = (): void => {
        provider.work(['a'], controller).subscribe({ error: (reason: unknown) => reasons.push(reason) });
      };
      call();
      advance(30);
      controller.abort();
      call();
      expect(reasons).toEqual([controller.signal.reason, controller.signal.reason]);
      expect(provider.calls.map(({ outcome, endedAt, aborts }) => [outcome, endedAt, aborts])).toEqual([
        ['cancelled', 30, 1],
        ['cancelled', 30, 1],
      ]);
      expect(provider.inFlight).toBe(0);
    });
  });

  it('works in real time, and on a scheduler of its own', async () => {
    expect(await firstValueFrom(upper({ latencyMs: 1 }).work(['a', 'b']))).toEqual(['A', 'B']);
    expect(asyncScheduler.now()).toBeGreaterThan(1e12);
    const scheduler = new VirtualTimeScheduler();
    const provider = upper({ latencyMs: 70, scheduler });
    provider.work(['a']).subscribe();
    scheduler.flush();
    expect(provider.calls[0]).toMatchObject({ startedAt: 0, endedAt: 70, outcome: 'ok' });
  });

  it('starts the limits anew when the clock is set back, as on entering virtual time', async () => {
    const provider = upper({ requestsPerMinute: 60, burstSeconds: 1 });
    await firstValueFrom(provider.work(['a']));
    virtualTime(({ advance, flush }) => {
      advance(1500);
      provider.work(['b']).subscribe({ error: () => undefined });
      advance(1500);
      provider.work(['c']).subscribe();
      flush();
      expect(provider.calls.map(({ fate }) => fate)).toEqual(['answered', 'throttled', 'answered']);
    });
  });

  const wrong: [string, unknown, string][] = [
    ['requestsPerMinute', 0, 'a number > 0 or Infinity'],
    ['tokensPerMinute', NaN, 'a number > 0 or Infinity'],
    ['discipline', 'log', "one of 'bucket', 'sliding'"],
    ['burstSeconds', -1, 'a number > 0 or Infinity'],
    ['latencyMs', -1, 'a number of milliseconds >= 0 or Infinity'],
    ['poisoned', 'a', 'a list of ids'],
    ['idOf', 'id', 'a function'],
    ['tokensOf', 3, 'a function'],
    ['answer', undefined, 'a function'],
    ['namesPoison', 1, 'true or false'],
    ['maxItems', 1.5, 'a whole number >= 1 or Infinity'],
    ['maxTokens', 0, 'a number > 0 or Infinity'],
    ['errorRate', { cut: 2 }, 'a number from 0 to 1'],
    ['errorRate', { cut: 0.6, slow: 0.6 }, 'the chances in `errorRate` add up to 1.2'],
    ['errorRate', { burnt: 1 }, 'unknown option `errorRate.burnt`. Known options: throttled, overloaded, cut, slow.'],
    ['slowFactor', 0.5, 'a number >= 1'],
    ['seed', 0.5, 'a whole number'],
    ['rate', 1, 'unknown option `rate`'],
  ];

  it.each(wrong)('refuses %s %j', (option, value, expected) => {
    const create = (): unknown => upper({ [option]: value });
    expect(create).toThrow(FlowConfigError);
    expect(create).toThrow(expected);
  });

  it('has its defaults in one place', () => {
    virtualTime((clock) => {
      expect(outcomes(upper(FAKE_PROVIDER_DEFAULTS), [['a']], clock)).toEqual(outcomes(upper(), [['a']], clock));
    });
  });
});
