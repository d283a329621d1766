import { fieldsOf, readAs } from './read-event.js';

const NOT = { string: 'no text', number: 'no number', boolean: 'neither true nor false' };

/** Why `readEvent` takes something for no event, in words; empty when it takes it for one. */
export function faultOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return 'it is no object';
  const told = value as Readonly<Record<string, unknown>>;
  const { type } = told;
  if (typeof type !== 'string') return 'it has no `type`';
  const fields = fieldsOf(type);
  if (!fields) return 'no event has its `type`';
  for (const [name, kind] of fields) if (readAs(kind, told[name]) === undefined) return `its \`${name}\` is ${NOT[kind]}`;
  return '';
}
