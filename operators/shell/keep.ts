import { noop, Observable } from 'rxjs';
import { captureContext } from '#async-context';

/** Of whoever loads this file, who is normally nobody: what is kept must not hold on to the context of a caller. */
const NOBODY = /* @__PURE__ */ captureContext();
const names = /* @__PURE__ */ new Set<string>();
const kept: unknown[] = [];

/** Two items, and no end: one that is under way for ever, and one that waits behind it. */
export const TWO_ITEMS = /* @__PURE__ */ new Observable<number>((to) => {
  to.next(0);
  to.next(1);
});

/** Marks a promise that belongs to the package: marble tests refuse those of a pipeline. */
const KEPT = /* @__PURE__ */ Symbol.for('sluice.kept');

/** Work that does not answer. What it was told stays as well. */
export function never(...told: readonly unknown[]): Promise<never> {
  kept.push(told);
  return Object.assign(new Promise<never>(noop), { [KEPT]: true });
}

/**
 * Keeps what `start` makes, once for each name: work that never ends. A full collection throws away what V8 has compiled for every class of which no object
 * is alive, and after an idle moment ten times the CPU would go into compiling it again (`node --trace-deopt`: "weak objects"; `bench/NOTES.md` has figures).
 */
export function keepOne(name: string, start: () => unknown): void {
  if (names.has(name)) return;
  // First: what is started comes here as well.
  names.add(name);
  kept.push(NOBODY.run(start, undefined));
}
