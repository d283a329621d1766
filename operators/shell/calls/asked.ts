import type { Asked } from '../../kernel/waiting/bounds.js';
import { ask } from '../../options/ask.js';
import { report } from './report.js';

/**
 * Makes a check for a value, or for a function that is asked for it each time. What the function throws, and an answer that the check refuses, is reported
 * as an uncaught error, and the answer before counts; before any, `first`.
 */
export function asked<V extends string | number>(check: (operator: string, option: string, value: unknown) => V, first: V) {
  return (operator: string, option: string, value: Asked<V>): Asked<V> => {
    if (typeof value !== 'function') return check(operator, option, value);
    let last = first;
    return () => {
      try {
        last = check(operator, option, ask(operator, option, value));
      } catch (error) {
        report(error);
      }
      return last;
    };
  };
}
