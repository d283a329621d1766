import type { RateRule } from '../../operators/index.js';

/** The same rate without credit, as a sliding window has none: a job that costs more than can be saved up is refused. */
export function refusing(rate: RateRule): RateRule {
  return { ...rate, borrows: false } as RateRule;
}
