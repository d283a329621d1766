import { PATTERN_WORDS } from './patterns.js';

/** What of a JSON Schema is looked at here. */
export interface SchemaNode {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly additionalProperties?: SchemaNode | boolean;
  readonly items?: SchemaNode;
  readonly anyOf?: readonly SchemaNode[];
  readonly enum?: readonly unknown[];
  readonly const?: string | number | boolean;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly pattern?: string;
  readonly minItems?: number;
  readonly required?: readonly string[];
  readonly description?: string;
}

/** The schema of a part. Undefined where there is none. */
export function below(node: SchemaNode | undefined, step: string | number): SchemaNode | undefined {
  if (node?.anyOf) return node.anyOf.map((one) => below(one, step)).find((one) => one !== undefined);
  if (typeof step === 'number') return node?.items;
  if (node?.properties && Object.hasOwn(node.properties, step)) return node.properties[step];
  return typeof node?.additionalProperties === 'object' ? node.additionalProperties : undefined;
}

export function at(node: SchemaNode, path: readonly (string | number)[]): SchemaNode | undefined {
  return path.reduce<SchemaNode | undefined>(below, node);
}

/** Whether a value of the type can be right. */
export function takes(node: SchemaNode | undefined, type: 'number' | 'boolean'): boolean {
  if (node?.anyOf) return node.anyOf.some((one) => takes(one, type));
  return node?.type === type || (type === 'number' && node?.type === 'integer');
}

/** Keys that are known in a mapping. */
export function keysOf(node: SchemaNode | undefined): readonly string[] {
  return node?.anyOf ? node.anyOf.flatMap(keysOf) : Object.keys(node?.properties ?? {});
}

/** Where else a key is known, in mappings and in lists of them. */
export function homesOf(node: SchemaNode, key: string, path = ''): readonly string[] {
  const parts = Object.entries(node.properties ?? {});
  const here = path !== '' && parts.some(([name]) => name === key) ? [path] : [];
  const deeper = parts.flatMap(([name, part]) => homesOf(part, key, path === '' ? name : `${path}.${name}`));
  const listed = node.items ? homesOf(node.items, key, `${path}[]`) : [];
  return [...here, ...deeper, ...listed, ...(node.anyOf ?? []).flatMap((one) => homesOf(one, key, path))];
}

/** "a whole number >= 1": everything that a value has to be, in words. */
export function wordsFor(node: SchemaNode | undefined): string {
  if (node?.anyOf) return node.anyOf.map(wordsFor).join(' or ');
  if (node?.const !== undefined) return `\`${String(node.const)}\``;
  if (node?.enum) return `one of ${node.enum.map((word) => `\`${String(word)}\``).join(', ')}`;
  switch (node?.type) {
    case 'integer':
      return `a whole number${range(node)}`;
    case 'number':
      return `a number${range(node)}`;
    case 'boolean':
      return '`true` or `false`';
    case 'string':
      return PATTERN_WORDS.get(node.pattern) ?? ((node.minLength ?? 0) > 0 ? 'a non-empty text' : 'a text');
    case 'array':
      return (node.minItems ?? 0) > 0 ? 'a list with at least one entry' : 'a list';
    case 'object':
      return 'a mapping';
    default:
      return 'a value';
  }
}

function range({ minimum, exclusiveMinimum, maximum = Infinity }: SchemaNode): string {
  if (exclusiveMinimum !== undefined) return ` > ${String(exclusiveMinimum)}`;
  // What zod says of every whole number.
  if (minimum === undefined || minimum <= Number.MIN_SAFE_INTEGER) return '';
  return maximum < Number.MAX_SAFE_INTEGER ? ` from ${String(minimum)} to ${String(maximum)}` : ` >= ${String(minimum)}`;
}
