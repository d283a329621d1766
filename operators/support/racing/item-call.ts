import type { ItemContext } from '../../options/types.js';
import { LazySignal } from '../../shell/abort.js';

/** One call for one item: what its work is told, and what aborts it. */
export class ItemCall extends LazySignal implements ItemContext {
  constructor(
    readonly index: number,
    readonly key: unknown,
  ) {
    super();
  }
}
