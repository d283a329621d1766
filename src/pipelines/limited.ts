/** Marks what keeps to a limiter, for this copy of the package and any other. */
const LIMITED = Symbol.for('sluice.limited');

export function markLimited<T extends object>(it: T): T {
  return Object.defineProperty(it, LIMITED, { value: true });
}

/** Two limiters, one behind the other, would make each attempt several times, and wait for each other's permits. */
export function isLimited(it: unknown): boolean {
  return LIMITED in (Object(it) as object);
}
