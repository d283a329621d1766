import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Histogram } from '../../src/metrics/histogram.js';
import { RELATIVE_ERROR } from '../../src/metrics/quantiles.js';
import { sized } from '../support/deep.js';

function filled(values: readonly number[]): Histogram {
  const histogram = new Histogram();
  for (const value of values) histogram.add(value);
  return histogram;
}

/** Nearest rank, from the values themselves. */
function exact(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.max(1, Math.ceil(share * values.length)) - 1]!;
}

describe('Histogram', () => {
  it('is empty before the first measurement', () => {
    expect(filled([]).distribution()).toEqual({ count: 0, mean: 0, max: 0, p50: 0, p95: 0, p99: 0 });
  });

  it('is at most 2 % off at every percentile, for any values from a thousandth to 1e9', () => {
    expect(RELATIVE_ERROR).toBe(0.02);
    const value = fc.double({ min: 0.001, max: 1e9, noNaN: true });
    const spread = fc.double({ min: -3, max: 9, noNaN: true }).map((exponent) => 10 ** exponent);
    fc.assert(
      fc.property(
        fc.array(fc.oneof(value, spread), { minLength: 1, maxLength: 200 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (values, share) => {
          const truth = exact(values, share);
          return Math.abs(filled(values).quantile(share) - truth) <= (RELATIVE_ERROR + 1e-9) * truth;
        },
      ),
      { numRuns: sized(500, 2000) },
    );
  });

  it('is off by no more on the two ends of every bucket', () => {
    for (let edge = 0.001; edge < 1e9; edge *= 1.02 / 0.98) {
      for (const value of [edge * 0.999999, edge, edge * 1.000001]) {
        if (value < 0.001) continue;
        // A second, larger one: the middle of the bucket is not cut down to the largest.
        expect(Math.abs(filled([value, 1e9]).quantile(0.5) / value - 1)).toBeLessThanOrEqual(RELATIVE_ERROR + 1e-9);
      }
    }
  });

  it('has the count, the mean and the largest exactly', () => {
    expect(filled([0, 1, 2, 9]).distribution()).toMatchObject({ count: 4, mean: 3, max: 9 });
    expect(filled([7]).distribution()).toMatchObject({ p50: 7, p95: 7, p99: 7 });
  });

  it('has no percentile outside of what was measured', () => {
    expect(filled([2000, 2000, 2000, 2000]).distribution()).toEqual({ count: 4, mean: 2000, max: 2000, p50: 2000, p95: 2000, p99: 2000 });
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.001, max: 1e9, noNaN: true }), { minLength: 1 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (values, share) => {
          const found = filled(values).quantile(share);
          return found >= Math.min(...values) && found <= Math.max(...values);
        },
      ),
    );
  });

  it('counts less than a thousandth as 0 and more than 1e9 as 1e9', () => {
    const { p50, p99, max } = filled([0, 0.0001, 5e12]).distribution();
    expect([p50, max]).toEqual([0, 5e12]);
    expect(Math.abs(p99 / 1e9 - 1)).toBeLessThanOrEqual(RELATIVE_ERROR);
  });

  it('ignores values that are no measurement', () => {
    expect(filled([NaN, -1, Infinity, -Infinity]).distribution().count).toBe(0);
  });
});
