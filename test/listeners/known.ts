import type { Subject } from '../world/subjects.js';

/** Operators that are being mended, with the reason: their cells are not looked at meanwhile, unless `SLUICE_ONLY` asks for them. */
export const KNOWN: Partial<Record<Subject, string>> = {};
