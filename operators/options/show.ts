/** A value for an error message: short, typed, never a payload (objects are described, not printed, and texts cut off). */
export function show(value: unknown): string {
  if (Array.isArray(value)) return `an array of length ${value.length}`;
  if (Object(value) === value) return `an object of type ${String((value as { constructor?: { name?: unknown } }).constructor?.name)}`;
  const shown = `\`${String(value).slice(0, 40)}\``;
  if (value === '') return 'an empty string';
  return value === undefined || value === null ? shown : `${shown} (${typeof value})`;
}
