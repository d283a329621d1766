import type { ToolCall } from '../pipelines/tools/tool-types.js';

/** Whose block it is: no other provider can read it. */
export type OpaqueProtocol = 'anthropic' | 'responses' | 'ag-ui';

/** What the stream of a model says, whatever protocol it has. */
export type ModelPart =
  /** A piece of the answer. */
  | { readonly type: 'text'; readonly text: string }
  /** A piece of what the model thinks before it answers. */
  | { readonly type: 'reasoning'; readonly text: string }
  /** A block that the provider needs back unchanged, in its place: signed thinking, encrypted reasoning. It is opaque: do not read it. */
  | {
      readonly type: 'opaque';
      readonly protocol: OpaqueProtocol;
      readonly block: object;
      /** How many characters of text and how many calls stand before it. @defaultValue what has come */
      readonly afterChars?: number;
      readonly afterCalls?: number;
    }
  /** A call that is whole. */
  | { readonly type: 'toolCall'; readonly call: ToolCall }
  /** Totals, not differences; the last one of each counts. */
  | { readonly type: 'usage'; readonly inputTokens?: number; readonly outputTokens?: number }
  /** Why the model ended, in the words of its protocol; `refusal` where it refused to answer. */
  | { readonly type: 'stop'; readonly reason: string };

/** But the texts. */
const TYPES: ReadonlySet<unknown> = new Set<ModelPart['type']>(['opaque', 'toolCall', 'usage', 'stop']);

interface AnyPart {
  readonly type?: unknown;
  readonly block?: unknown;
  readonly call?: unknown;
  readonly text?: unknown;
}

export function isModelPart(event: AnyPart): event is ModelPart {
  const { type, block, call, text } = event;
  if (type === 'text' || type === 'reasoning') return typeof text === 'string';
  const inside = type === 'opaque' ? block : type === 'toolCall' ? call : event;
  return TYPES.has(type) && Object(inside) === inside;
}

/** One part, or none for a text with nothing in it. */
export function textPart(type: 'text' | 'reasoning', text: unknown): readonly ModelPart[] {
  return typeof text === 'string' && text !== '' ? [{ type, text }] : NOTHING;
}

export function usagePart(inputTokens: unknown, outputTokens: unknown): readonly ModelPart[] {
  const input = typeof inputTokens === 'number' ? { inputTokens } : {};
  const output = typeof outputTokens === 'number' ? { outputTokens } : {};
  const counted = { ...input, ...output };
  return Object.keys(counted).length > 0 ? [{ type: 'usage', ...counted }] : NOTHING;
}

/** Empty for what is no text: servers say what they like. */
export function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Shared, so that an event that says nothing costs nothing. */
export const NOTHING: readonly never[] = [];
