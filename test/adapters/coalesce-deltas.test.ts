import fc from 'fast-check';
import { Subject, take } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { isFlowError } from '../../operators/index.js';
import type { DeltaOptions, DeltaRule } from '../../src/adapters/support/coalesce-deltas.js';
import { coalesceDeltas } from '../../src/adapters/support/coalesce-deltas.js';

/** A delta of a text (1 to 4; the even ones keep their place), or with id 0 something else. */
interface Part {
  readonly id: number;
  readonly text: string;
}

const rule: DeltaRule<Part> = {
  key: ({ id }) => (id === 0 ? undefined : String(id)),
  text: ({ text }) => text,
  join: (first, next) => ({ ...first, text: first.text + next.text }),
  beside: (waiting, next) => waiting.id % 2 === 1 && next.id % 2 === 1,
};
const deltas = (options: DeltaOptions = {}) => coalesceDeltas('flowing', rule, options);

describe('deltas of several texts', () => {
  const arrival = fc.record({ afterMs: fc.nat({ max: 9 }), id: fc.nat({ max: 4 }), text: fc.string({ minLength: 1, maxLength: 3 }) });
  const bounds = fc.record({ maxWaitMs: fc.constantFrom(0, 5, 16, Infinity), maxChars: fc.constantFrom(3, 12, Infinity) });

  it('each text stays the same, and no delta waits too long', () => {
    fc.assert(
      fc.property(fc.array(arrival, { maxLength: 40 }), bounds, (arrivals, options) => {
        virtualTime(({ advance, now }) => {
          const source = new Subject<Part>();
          const out: Part[] = [];
          const waitingSince = new Map<number, number>();
          source.pipe(deltas(options)).subscribe((part) => {
            expect(now() - (waitingSince.get(part.id) ?? now())).toBeLessThanOrEqual(options.maxWaitMs);
            expect(part.text.length).toBeLessThanOrEqual(Math.max(3, options.maxChars));
            waitingSince.delete(part.id);
            out.push(part);
          });
          for (const { afterMs, id, text } of arrivals) {
            advance(afterMs);
            if (!waitingSince.has(id)) waitingSince.set(id, now());
            source.next({ id, text });
          }
          source.complete();
          const given = arrivals.map(({ id, text }) => ({ id, text }));
          expect(sections(out)).toEqual(sections(given));
          // Beside those that keep their place the order of the pieces is the order of the source.
          expect(pieces(out, [0, 2, 4])).toEqual(pieces(given, [0, 2, 4]));
        });
      }),
    );
  });

  /** What each text got between two events that are no delta. */
  function sections(parts: readonly Part[]): readonly Record<number, string>[] {
    const all: Record<number, string>[] = [{}];
    for (const { id, text } of parts) {
      const last = all.at(-1) as Record<number, string>;
      if (id === 0) all.push({ 0: text }, {});
      else last[id] = (last[id] ?? '') + text;
    }
    return all;
  }

  /** The characters of these texts, one by one. */
  function pieces(parts: readonly Part[], ids: readonly number[]): readonly string[] {
    return parts.filter(({ id }) => ids.includes(id)).flatMap(({ id, text }) => Array.from(text, (char) => `${String(id)}${char}`));
  }

  it('that come by turns are merged side by side', () => {
    virtualTime(({ advance }) => {
      const source = new Subject<Part>();
      const out: string[] = [];
      source.pipe(deltas()).subscribe(({ id, text }) => out.push(`${String(id)}${text}`));
      for (const text of 'abcd') for (const id of [1, 3]) source.next({ id, text });
      advance(16);
      expect(out).toEqual(['1abcd', '3abcd']);
    });
  });

  it('wait on, one by one, where they keep their places', () => {
    virtualTime(({ advance }) => {
      const source = new Subject<Part>();
      const out: string[] = [];
      source.pipe(deltas()).subscribe(({ id, text }) => out.push(`${String(id)}${text}`));
      for (const id of [2, 2, 1, 1, 3, 4]) source.next({ id, text: 'x' });
      expect(out).toEqual(['2xx', '1xx', '3x']);
      advance(16);
      expect(out).toEqual(['2xx', '1xx', '3x', '4x']);
    });
  });

  it('are handed out no further once the consumer has left', () => {
    const source = new Subject<Part>();
    const out: Part[] = [];
    source.pipe(deltas(), take(1)).subscribe((part) => out.push(part));
    for (const id of [1, 3]) source.next({ id, text: 'x' });
    source.next({ id: 0, text: 'end' });
    expect(out).toEqual([{ id: 1, text: 'x' }]);
    expect(source.observed).toBe(false);
  });

  it.each([{ maxChars: 0 }, { maxWaitMs: -1 }, { pace: 'idle' }, { scheduler: {} }, { ms: 16 }])(
    'reject %o, and name the adapter that got the option',
    (options) => {
      let thrown: unknown;
      try {
        deltas(options as never);
      } catch (error) {
        thrown = error;
      }
      expect(isFlowError(thrown, 'FLOW_CONFIG_INVALID') && [thrown.operator, thrown.option]).toEqual(['flowing', Object.keys(options)[0]]);
    },
  );
});
