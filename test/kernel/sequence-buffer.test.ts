import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SequenceBuffer } from '../../operators/kernel/index.js';

/** A buffer that is given numbers as an operator gives them, and what comes out. */
function feed(first = 0) {
  const buffer = new SequenceBuffer<string>(first);
  const out: string[] = [];
  const handOut = (): void => {
    while (buffer.isReady) out.push(buffer.take());
  };
  const put = (number: number, now = 0): string => {
    const status = buffer.statusOf(number);
    if (status === 'next') {
      buffer.pass();
      out.push(String(number));
      handOut();
    } else if (status === 'early') {
      buffer.hold(number, String(number), now);
    }
    return status;
  };
  const skip = (): void => {
    buffer.skip();
    handOut();
  };
  return { buffer, out, put, skip };
}

describe('SequenceBuffer', () => {
  it('tells what a number is', () => {
    const { buffer, out, put, skip } = feed(2);
    expect([1, 2, 4, 4, 2].map((number) => put(number))).toEqual(['late', 'next', 'early', 'duplicate', 'duplicate']);
    expect(buffer.next).toBe(3);
    expect(buffer.held).toBe(1);
    expect(buffer.missing).toBe(1);
    skip();
    expect(buffer.next).toBe(5);
    // 3 was given up, 4 has come: both are behind the gap or after it.
    expect([3, 4].map((number) => buffer.statusOf(number))).toEqual(['late', 'duplicate']);
    expect(out).toEqual(['2', '4']);
  });

  it('has nothing missing while nothing waits', () => {
    const { buffer, put } = feed();
    expect(buffer.missing).toBe(Infinity);
    expect(buffer.oldest).toBeUndefined();
    expect(buffer.isReady).toBe(false);
    put(0);
    expect(buffer.missing).toBe(Infinity);
  });

  it('counts a gap by its numbers, however many', () => {
    const { buffer, put, skip } = feed();
    put(1_000_000_000_000);
    put(7);
    expect(buffer.missing).toBe(7);
    skip();
    expect(buffer.missing).toBe(1_000_000_000_000 - 8);
    skip();
    expect(buffer.next).toBe(1_000_000_000_001);
  });

  it('keeps holding an item whose predecessor has come, until it is taken', () => {
    const buffer = new SequenceBuffer<string>(0);
    buffer.hold(1, 'one', 0);
    buffer.pass();
    expect(buffer.statusOf(1)).toBe('duplicate');
    expect(buffer.isReady).toBe(true);
    expect(buffer.take()).toBe('one');
    expect(buffer.held).toBe(0);
  });

  it('forgets everything, runs and gaps alike', () => {
    const { buffer, put, out } = feed();
    for (const number of [2, 3, 4, 8, 9, 6, 1e15]) put(number, number);
    buffer.clear();
    expect(buffer.held).toBe(0);
    expect(buffer.missing).toBe(Infinity);
    expect(buffer.oldest).toBeUndefined();
    expect(out).toEqual([]);
  });

  it('is what a list that is sorted again and again would be', () => {
    const step = fc.oneof(
      { weight: 8, arbitrary: fc.record({ put: fc.integer({ min: -2, max: 30 }) }) },
      { weight: 1, arbitrary: fc.constant('skip' as const) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), fc.integer({ min: -1, max: 3 }), (steps, first) => {
        const { buffer, out, put, skip } = feed(first);
        let held: { readonly number: number; readonly since: number }[] = [];
        const wanted: string[] = [];
        const gone = new Set<number>();
        let next = first;
        let skippedTo = first;
        const handOut = (): void => {
          for (
            let ready = held.find(({ number }) => number === next);
            ready !== undefined;
            ready = held.find(({ number }) => number === next)
          ) {
            wanted.push(String(next));
            gone.add(next++);
            held = held.filter((one) => one !== ready);
          }
        };
        steps.forEach((what, now) => {
          const lowest = Math.min(...held.map(({ number }) => number));
          if (what !== 'skip') {
            const number = what.put;
            const isHeld = held.some((one) => one.number === number);
            const status =
              isHeld || (gone.has(number) && number >= skippedTo)
                ? 'duplicate'
                : number < next
                  ? 'late'
                  : number === next
                    ? 'next'
                    : 'early';
            if (status === 'next' || status === 'early') held.push({ number, since: now });
            handOut();
            expect(put(number, now)).toBe(status);
          } else if (held.length > 0) {
            next = skippedTo = lowest;
            handOut();
            skip();
          }
          expect(out).toEqual(wanted);
          expect(buffer.next).toBe(next);
          expect(buffer.held).toBe(held.length);
          // Arrivals are pushed in the order of time.
          expect(buffer.oldest).toEqual(held[0]);
          expect(buffer.missing).toBe(Math.min(...held.map(({ number }) => number)) - next);
        });
      }),
      { numRuns: 60, seed: 12 },
    );
  });
});
