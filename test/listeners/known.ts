import type { Subject } from '../world/subjects.js';

/** Operators that are being mended, with the reason: their cells are not looked at meanwhile, unless `SLUICE_ONLY` asks for them. */
export const KNOWN: Partial<Record<Subject, string>> = {
  batchMap: 'loops and calls after a listener has left',
  batchMapFrom: 'loops and calls after a listener has left',
  createBatcher: 'listeners on `dropped`, and calls after close',
  divideRetry: 'loops after a listener has left',
  bulkheadMap: 'a listener that leaves or completes',
  concatMapBy: 'a listener that leaves or completes',
  settleAll: 'a listener that leaves',
};
