import { LazySignal } from '../abort.js';
import type { ItemContext } from '../types.js';

/** One call for one item: what its work is told, and what aborts it. */
export class ItemCall extends LazySignal implements ItemContext {
  constructor(
    readonly index: number,
    readonly key: unknown,
  ) {
    super();
  }
}
