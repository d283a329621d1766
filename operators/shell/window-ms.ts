import type { BatchMachine } from '../kernel/machine/batch-machine.js';
import { isAmount, unusable } from '../options/answers.js';
import { ask } from '../options/ask.js';
import type { Permits } from '../options/permits.js';
import type { BatchConfig } from './batch-options.js';

/** Of the window when none is given, which grows with the load. */
const LONGEST_MS = 100;

/** How long a batch that is not full is held now. @throws CallbackError */
export function windowMs<T, R>({ operator, window }: BatchConfig<T>, machine: BatchMachine<T, R>, permits: Permits): number {
  const { executing, concurrency, load } = permits;
  if (!window) return load === 0 ? 0 : LONGEST_MS * load;
  const { fresh: queued, freshWeight: queuedWeight, now, oldestAt } = machine;
  const ms = ask(operator, 'window', window, { executing, concurrency, load, queued, queuedWeight, oldestMs: now - oldestAt });
  if (isAmount(ms)) return ms;
  throw unusable(operator, 'window', 'a number of ms >= 0', ms);
}
