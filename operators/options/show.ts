/** A value for an error message: short, typed, never a payload (strings and objects are described, not printed whole). */
export function show(value: unknown): string {
  if (typeof value === 'string') return `'${value.length > 40 ? `${value.slice(0, 40)}…` : value}' (string)`;
  if (value === null || value === undefined) return `\`${String(value)}\``;
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') return `\`${String(value)}\` (${typeof value})`;
  if (Array.isArray(value)) return `an array of ${String(value.length)}`;
  if (typeof value === 'function') return 'a function';
  const made: unknown = (value as { constructor?: unknown }).constructor;
  return typeof made === 'function' ? `an object of type ${made.name}` : 'an object';
}
