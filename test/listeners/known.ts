import type { Subject } from '../world/subjects.js';

/** Operators that are being mended, with the reason: their cells are not looked at meanwhile, unless `SLUICE_ONLY` asks for them. */
export const KNOWN: Partial<Record<Subject, string>> = {
  bulkheadMap: 'propagate: the signal of a call that has failed fires',
  concatMapBy: 'propagate: the signal of a call that has failed fires',
  settleAll: 'whoever leaves while the guard is asked; a teardown that throws',
};
