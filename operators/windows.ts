import { durationMs } from './options/options.js';
import type { Window } from './shell/batch-options.js';

export type { Window, WindowContext } from './shell/batch-options.js';

/** A batch that is not full leaves at once when a permit is free. */
export function natural(): Window {
  return () => 0;
}

/**
 * A batch that is not full is held for company for so long, counted from its oldest item.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for anything but a number of milliseconds.
 */
export function fixed(ms: number): Window {
  const heldMs = durationMs('fixed', 'ms', ms);
  return () => heldMs;
}

/**
 * A batch that is not full is held the longer, the more slots are busy or the more of the rate is spent: not at all when nothing is, up to `maxMs`
 * when all is. The default, with 100 ms.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for anything but a number of milliseconds.
 */
export function graded(maxMs: number): Window {
  const mostMs = durationMs('graded', 'maxMs', maxMs);
  return ({ load }) => (load === 0 ? 0 : mostMs * load);
}
