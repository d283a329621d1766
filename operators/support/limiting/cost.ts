import { FlowConfigError } from '../../options/errors.js';
import { known } from '../../options/options.js';
import type { Cost } from './limiter-types.js';

const FIELDS = ['requests', 'tokens'] as const;

/** A cost with its defaults, checked. `within` is what it is part of, with a dot. */
export function checkedCost(operator: string, cost: Cost, within = ''): Required<Cost> {
  known(operator, cost, FIELDS, 'cost', within);
  const { requests = 1, tokens = 0 } = cost;
  return { requests: amount(operator, `${within}requests`, requests), tokens: amount(operator, `${within}tokens`, tokens) };
}

/** A finite number >= 0. */
export function amount(operator: string, option: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value !== Infinity) return value;
  throw new FlowConfigError(operator, option, 'a finite number >= 0', value);
}
