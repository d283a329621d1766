import * as z from 'zod';
import { schema } from '../zod.js';
import { VARIABLE } from './env.js';
import { configSchema } from './schema.js';
import type { SchemaNode } from './schema-node.js';

/** What values have to be once variables are filled in. */
export const VALUE_SCHEMA: SchemaNode = /* @__PURE__ */ schema(() => z.toJSONSchema(configSchema, { io: 'input' }) as SchemaNode);

/**
 * The JSON Schema of a configuration, for editors: what `docs/config.schema.json` holds. Where not any text is right, a text with a variable
 * (`${NAME}`) is, too. What a schema cannot say, `parseConfig` still checks: names of stages that are used twice, prompts that name a later stage,
 * lanes that there are not, URLs that only look like one or name a user, headers that cannot be sent, an `overlapTokens` that is too large, a key `__proto__`, variables that are not set.
 */
export function configJsonSchema(): Readonly<Record<string, unknown>> {
  return { ...withVariables(VALUE_SCHEMA) };
}

function withVariables(node: SchemaNode): SchemaNode {
  const { description, properties, items, additionalProperties: others, anyOf } = node;
  if (isNarrow(node)) {
    const { description: _, ...narrow } = node;
    return { ...(description !== undefined && { description }), anyOf: [narrow, { type: 'string', pattern: VARIABLE }] };
  }
  return {
    ...node,
    ...(properties && { properties: Object.fromEntries(Object.entries(properties).map(([key, part]) => [key, withVariables(part)])) }),
    ...(items && { items: withVariables(items) }),
    ...(typeof others === 'object' && { additionalProperties: withVariables(others) }),
    ...(anyOf && { anyOf: anyOf.map(withVariables) }),
  };
}

function isNarrow({ type, enum: words, pattern }: SchemaNode): boolean {
  return type === 'integer' || type === 'number' || type === 'boolean' || words !== undefined || pattern !== undefined;
}
