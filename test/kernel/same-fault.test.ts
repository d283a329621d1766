import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SameFault } from '../../operators/kernel/index.js';

const same = (): Error => new Error('no connection to the database');

/** A batch of 20 cut into four parts, of which so many have failed. */
function watched(failed: number, error: (i: number) => unknown = same): SameFault {
  const watch = new SameFault(4);
  watch.failed(error(0), 20, 0);
  watch.cut(0, 4);
  for (let i = 0; i < failed; i++) watch.failed(error(1 + i), 5, 1);
  return watch;
}

describe('SameFault', () => {
  it('gives a batch up once each of its parts has failed with the same error', () => {
    expect(watched(3).isHopeless).toBe(false);
    expect(watched(4).isHopeless).toBe(true);
  });

  it('never gives up a batch of which something has succeeded, or whose errors say what they are about', () => {
    const watch = watched(3);
    watch.ruleOut();
    watch.failed(same(), 5, 1);
    expect([watch.isHopeless, watch.alone]).toEqual([false, 0]);
  });

  it('looks at the parts of the parts when there are fewer than four', () => {
    for (const factor of [2, 3]) {
      const watch = new SameFault(factor);
      watch.failed(same(), 20, 0);
      watch.cut(0, factor);
      for (let i = 0; i < factor; i++) {
        watch.failed(same(), 10, 1);
        watch.cut(1, factor);
      }
      for (let i = 0; i < factor * factor; i++) {
        expect(watch.isHopeless).toBe(false);
        watch.failed(same(), 5, 2);
      }
      expect(watch.isHopeless).toBe(true);
    }
  });

  it('counts an item that is a part of its own where it stands', () => {
    const watch = new SameFault(2);
    watch.failed(same(), 2, 0);
    watch.cut(0, 2);
    watch.failed(same(), 1, 1);
    expect(watch.isHopeless).toBe(false);
    watch.failed(same(), 1, 1);
    expect(watch.isHopeless).toBe(true);
  });

  it('gives up what is sent part by part once four items have failed alone', () => {
    const watch = new SameFault(0);
    for (const size of [20, 10, 5, 2, 1, 1, 1]) {
      watch.failed(same(), size, 1);
      expect(watch.isHopeless).toBe(false);
    }
    expect(watch.alone).toBe(3);
    watch.failed(same(), 1, 1);
    expect([watch.isHopeless, watch.alone]).toEqual([true, 4]);
  });

  it.each<[string, (i: number) => unknown]>([
    ['words in their messages', (i) => new Error(`${'abcdefghijkl'.charAt(i)} is empty`)],
    ['names', (i) => Object.assign(new Error('no'), { name: `E${'abcdefghijkl'.charAt(i)}` })],
    ['words, thrown', (i) => 'abcdefghijkl'.charAt(i)],
    ['ids', (i) => new Error(`no route (request 1b4e28ba-2fa1-11d2-883f-0123456789a${String(i)})`)],
    ['long numbers', (i) => new Error(`no route to ${String(1_000_000 + i)}`)],
    ['names with a number', (i) => new Error(`annual-report-${String(i)} is empty`)],
    ['numbers, or none', (i) => new Error(i === 3 ? 'got  rows' : 'got 5 rows')],
    ['types', (i) => (i === 3 ? 'undefined' : new Error('undefined'))],
  ])('sees a difference between errors with different %s', (_name, error) => {
    expect(watched(4, error).isHopeless).toBe(false);
  });

  it.each<[string, (i: number) => string]>([
    ['a count', (i) => `expected 5 rows, got ${String(i)}`],
    ['two counts', (i) => `${String(i)} of 5 rows, ${String(10 * i)} missing`],
    ['a duration', (i) => `no route after ${String(5 + i / 8)} s`],
  ])('sees none between messages that differ in %s, of an error or thrown as they are', (_name, message) => {
    expect(new Set(Array.from({ length: 5 }, (_, i) => message(i))).size).toBe(5);
    expect(watched(4, (i) => new Error(message(i))).isHopeless).toBe(true);
    expect(watched(4, message).isHopeless).toBe(true);
    // What follows such a part still counts.
    expect(watched(4, (i) => new Error(`${message(i)} for ${'abcdefghijkl'.charAt(i)}`)).isHopeless).toBe(false);
  });

  it('sees none behind what is compared of a long text', () => {
    expect(watched(4, (i) => `${'x'.repeat(10_000)}${'abcdefghijkl'.charAt(i)}`).isHopeless).toBe(true);
    expect(watched(4, (i) => `${'x'.repeat(9_999)}${'abcdefghijkl'.charAt(i)}`).isHopeless).toBe(false);
  });

  it('is what a tree of the parts says, in whatever order they fail', () => {
    interface Part {
      readonly size: number;
      readonly depth: number;
      hasFailed: boolean;
      parts: Part[];
    }
    const made = (size: number, depth: number): Part => ({ size, depth, hasFailed: false, parts: [] });
    const order = fc.array(fc.nat(), { maxLength: 60, size: 'max' });
    fc.assert(
      fc.property(fc.constantFrom(0, 2, 3, 4, 5, Infinity), fc.integer({ min: 1, max: 30 }), order, (factor, size, picks) => {
        const watch = new SameFault(factor);
        const root = made(size, 0);
        const pending = [root];
        let alone = 0;
        // The first depth at which a batch is in four parts.
        const level = [0, 1, 2].find((depth) => factor ** depth >= 4) ?? 0;
        const isLost = (part: Part): boolean =>
          part.hasFailed && (part.depth === level || part.size === 1 || (part.parts.length > 0 && part.parts.every(isLost)));
        for (const pick of picks) {
          const [part] = pending.splice(pick % Math.max(1, pending.length), 1);
          if (!part) return;
          watch.failed(same(), part.size, part.depth);
          part.hasFailed = true;
          if (part.size === 1) alone++;
          expect(watch.isHopeless).toBe(factor === 0 ? alone === 4 : isLost(root));
          if (factor === 0) expect(watch.alone).toBe(Math.min(alone, 4));
          if (factor === 0 && alone === 4) return;
          if (part.size === 1) continue;
          // One after the other: halves, for the sake of it.
          const count = Math.min(factor || 2, part.size);
          const share = (i: number): number => Math.floor((part.size * i) / count);
          part.parts = Array.from({ length: count }, (_, i) => made(share(i + 1) - share(i), part.depth + 1));
          pending.push(...part.parts);
          if (factor === 0) continue;
          watch.cut(part.depth, count);
          expect(watch.isHopeless).toBe(isLost(root));
        }
      }),
      { numRuns: 300 },
    );
  });

  it.each<[string, () => unknown]>([
    ['strings', () => 'no'],
    ['nothing', () => undefined],
    ['null', () => null],
    ['symbols', () => Symbol('no')],
    ['objects without a message', () => ({})],
    ['objects with fields of their own', () => ({ message: 'no', name: () => 'no' })],
    ['objects whose name is no text', () => ({ message: 'no', name: Symbol('no') })],
    ['objects without a prototype', () => Object.create(null) as object],
  ])('sees none between equal %s', (_name, error) => {
    expect(watched(4, error).isHopeless).toBe(true);
  });
});
