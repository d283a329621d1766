import { CallbackError } from './errors.js';

/** A number that is not negative: a time, a weight. */
export function isAmount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0;
}

/** What to say of a callback's answer. Tells the type only of what is no number: it may be a payload. */
export function unusable(operator: string, name: string, wanted: string, value: unknown): CallbackError {
  return new CallbackError(operator, name, `must return ${wanted}, returned ${typeof value === 'number' ? value : `a ${typeof value}`}`);
}
