import { ask } from './options/ask.js';
import { CallbackError } from './options/errors.js';
import { requiredFunction } from './options/options.js';
import type { SplitItem } from './options/oversize.js';
import { cut } from './shell/batch/cut-item.js';

/**
 * An item heavier than `maxWeight` is cut into parts, which travel like items: a value for the option `oversize`.
 *
 * @stable
 * @param into - The parts of an item, in order, at least one. A part that is still too heavy travels alone.
 * @param join - One result of those of the parts, in their order.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when one of them is no function.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { batchMap, splitItem, unwrap } from 'sluice/operators';
 *
 * const halves = splitItem((text: string) => [text.slice(0, 3), text.slice(3)], (parts: readonly string[]) => parts.join(''));
 * const work = (texts: readonly string[]) => texts.map((text) => text.toUpperCase());
 * const seen: string[] = [];
 * of('ab', 'cdefg')
 *   .pipe(batchMap(work, { maxWeight: 4, weigh: (text) => text.length, oversize: halves }), unwrap('values'))
 *   .subscribe((text) => seen.push(text));
 * await new Promise((resolve) => setTimeout(resolve, 5));
 * seen; // => ['AB', 'CDEFG']
 * ```
 */
export function splitItem<T, R>(into: (item: T) => readonly T[], join: (results: readonly R[]) => R): SplitItem<T, R> {
  requiredFunction('splitItem', 'into', into);
  requiredFunction('splitItem', 'join', join);
  return {
    into: (operator, item) => {
      const parts: unknown = ask(operator, 'splitItem.into', into, item);
      if (Array.isArray(parts) && parts.length > 0) return parts as readonly T[];
      throw new CallbackError(operator, 'splitItem.into', 'must return an array with at least one part');
    },
    join: (operator, results) => ask(operator, 'splitItem.join', join, results),
    cut,
  };
}
