import type { SchemaAnswer, ToolIssue, ToolSchema } from './tool-types.js';

/** What became of the arguments of a call. */
export type CheckedArguments = { readonly input: unknown } | { readonly issues: readonly ToolIssue[] };

/**
 * Checks arguments against the schema of their tool. The result is a frozen copy, except for objects that the schema itself creates, so that exactly
 * what the guard has checked is executed.
 */
export function checkArguments(schema: ToolSchema<unknown>, given: unknown): CheckedArguments | PromiseLike<CheckedArguments> {
  let copy: unknown;
  try {
    copy = structuredClone(given);
  } catch {
    return { issues: [{ path: '', message: 'expected plain data' }] };
  }
  const answer = '~standard' in schema ? schema['~standard'].validate(copy) : answerOf(schema.safeParse(copy));
  return 'then' in answer ? Promise.resolve(answer).then(checked) : checked(answer);
}

function answerOf(result: ReturnType<Extract<ToolSchema<unknown>, { safeParse: unknown }>['safeParse']>): SchemaAnswer<unknown> {
  return result.success ? { value: result.data } : { issues: result.error.issues };
}

function checked(answer: SchemaAnswer<unknown>): CheckedArguments {
  if (answer.issues === undefined) return { input: frozenCopy(answer.value) };
  return {
    issues: answer.issues.map(({ message, path = [] }) => ({ path: path.map(step).join('.'), message: String(message as unknown) })),
  };
}

/** A Standard Schema may wrap the steps of a path. */
function step(part: unknown): string {
  return String(typeof part === 'object' && part !== null ? (part as { key?: unknown }).key : part);
}

/**
 * Copies plain objects and arrays through and through and freezes the copies: a schema may put in something of the program's own, which must
 * not be frozen, and a getter must not answer twice. Without recursion: a model may nest as deep as it likes.
 */
function frozenCopy(root: unknown): unknown {
  const copies = new Map<object, Record<PropertyKey, unknown>>();
  const copyOf = (value: unknown): unknown => {
    if (!isPlain(value)) return value;
    const copy = copies.get(value) ?? shallowCopy(value);
    copies.set(value, copy);
    return copy;
  };
  const copied = copyOf(root);
  // Grows while it is looked through.
  for (const copy of copies.values()) {
    for (const key of Reflect.ownKeys(copy)) copy[key] = copyOf(copy[key]);
    Object.freeze(copy);
  }
  return copied;
}

function shallowCopy(value: object): Record<PropertyKey, unknown> {
  const copy: object = Array.isArray(value) ? [...(value as unknown[])] : { ...value };
  // It may have none, as a dictionary.
  Object.setPrototypeOf(copy, Object.getPrototypeOf(value) as object | null);
  return copy as Record<PropertyKey, unknown>;
}

/** Not a `Date`, a `Map` or what else a schema may make, which cannot be frozen or would break. */
function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === null || prototype === Object.prototype;
}
