/** A value for an error message: short, typed, never a payload (objects are described, not printed, and texts cut off). */
export function show(value: unknown): string {
  if (Object(value) === value) return `an object of type ${String((value as { constructor?: { name?: unknown } }).constructor?.name)}`;
  return `\`${String(value).slice(0, 40)}\` (${typeof value})`;
}
