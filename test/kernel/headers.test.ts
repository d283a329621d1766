import { describe, expect, it } from 'vitest';
import type { HeadersLike } from '../../operators/kernel/index.js';
import { parseRetryAfterMs } from '../../operators/kernel/index.js';

describe('parseRetryAfterMs', () => {
  const EPOCH_MS = Date.UTC(2026, 10, 21, 8, 0, 0);

  it.each<[Record<string, string | string[] | undefined>, number | undefined]>([
    [{ 'retry-after': '2' }, 2000],
    [{ 'Retry-After': '0.2' }, 200],
    [{ 'RETRY-AFTER-MS': '120', 'retry-after': '7' }, 120],
    [{ 'retry-after-ms': 'soon', 'retry-after': '7' }, 7000],
    [{ 'retry-after': ' 3 ' }, 3000],
    [{ 'retry-after': ['4', '5'] }, 4000],
    [{ 'retry-after': 7 as never }, 7000],
    [{ 'retry-after': [['7']] as never }, undefined],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': 'Sat, 21 Nov 2026 08:00:30 GMT' }, 30_000],
    [{ 'retry-after': 'Saturday, 21-Nov-26 08:00:30 GMT' }, 30_000],
    [{ 'retry-after': 'Sat, 21 Nov 2026 07:00:00 GMT' }, 0],
    [{ 'retry-after': 'Sat, 99 Nov 2026 07:00:00 GMT' }, undefined],
    [{ 'retry-after': '-5' }, undefined],
    [{ 'retry-after-ms': '-5' }, undefined],
    [{ 'retry-after': '' }, undefined],
    [{ 'retry-after': '1e3' }, undefined],
    [{ 'retry-after': 'Infinity' }, undefined],
    [{ 'retry-after': '2026-11-21' }, undefined],
    [{ 'retry-after': String(24 * 86_400) }, 2_073_600_000],
    [{ 'retry-after': String(25 * 86_400) }, undefined],
    [{ 'retry-after': String(EPOCH_MS / 1000 + 30) }, 30_000],
    [{ 'retry-after': String(EPOCH_MS + 30_000) }, 30_000],
    [{ 'retry-after-ms': String(EPOCH_MS + 30) }, 30],
    [{ 'retry-after': String(EPOCH_MS / 1000 - 30) }, 0],
    [{ 'retry-after': '99999999999' }, undefined],
    [{ 'retry-after': '9'.repeat(400) }, undefined],
    [{ 'retry-after': 'Mon, 21 Dec 2026 08:00:00 GMT' }, undefined],
    [{ 'retry-after': 'Sat Nov 21 08:00:30 2026' }, 30_000],
    [{ 'retry-after': 'Wed Nov  1 08:00:30 2026' }, 0],
    [{ 'retry-after': '12.25' }, 12_250],
    [{ 'retry-after': 'in 5' }, undefined],
    [{ 'retry-after': '5 s' }, undefined],
    [{ 'retry-after': 'x Sat, 21 Nov 2026 08:00:30 GMT' }, undefined],
    [{ 'retry-after': 'Sat, 21 Nov 2026 08:00:30 GMT+1' }, undefined],
    [{ 'retry-after': undefined }, undefined],
    [{}, undefined],
  ])('%j: %s', (headers, expected) => {
    expect(parseRetryAfterMs(headers, EPOCH_MS)).toBe(expected);
    const plain = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
      typeof value === 'string' ? [[name, value]] : [],
    );
    if (plain.length === Object.keys(headers).length) expect(parseRetryAfterMs(new Headers(plain), EPOCH_MS)).toBe(expected);
  });

  it('ignores a date when it is not told the time, or told that of a virtual clock', () => {
    const headers: HeadersLike = { 'retry-after': 'Sat, 21 Nov 2026 08:00:30 GMT' };
    expect(parseRetryAfterMs(headers)).toBeUndefined();
    expect(parseRetryAfterMs(headers, 0)).toBeUndefined();
    expect(parseRetryAfterMs(headers, 1e12 - 1)).toBeUndefined();
    // 2001-09-09: the first that counts from 1970.
    expect(parseRetryAfterMs({ 'retry-after': 'Sun, 09 Sep 2001 01:47:00 GMT' }, 1e12)).toBe(20_000);
  });
});
