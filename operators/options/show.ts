/** A value for an error message: short, typed, never a payload (strings and objects are described, not printed whole). */
export function show(value: unknown): string {
  if (typeof value === 'string') return `'${value.length > 40 ? `${value.slice(0, 40)}…` : value}' (string)`;
  if (Array.isArray(value)) return `an array of ${String(value.length)}`;
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'object' && value !== null) {
    const made: unknown = (value as { constructor?: unknown }).constructor;
    return typeof made === 'function' ? `an object of type ${made.name}` : 'an object';
  }
  return `\`${String(value)}\`${value === null || value === undefined ? '' : ` (${typeof value})`}`;
}
