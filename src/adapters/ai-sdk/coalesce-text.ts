import type { StreamTextTransform, TextStreamPart, ToolSet } from 'ai';
import type { SchedulerLike } from 'rxjs';
import { check } from '../../../operators/build.js';
import { coalesceDeltas } from '../support/coalesce-deltas.js';
import { drawnStream } from '../support/drawn.js';

/** @beta */
export interface CoalesceTextOptions {
  /** Longest a delta waits for others, in ms; 0 = to the end of the current frame, Infinity = no limit. @defaultValue 16 */
  readonly maxWaitMs?: number;
  /** Most characters in one merged delta; a longer one goes alone. @defaultValue 4096 */
  readonly maxChars?: number;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/** What {@link coalesceText} does when an option is left out. */
export const COALESCE_TEXT_DEFAULTS = { maxWaitMs: 16, maxChars: 4096 } as const;

type Part = TextStreamPart<ToolSet>;
type Delta = Extract<Part, { readonly type: 'text-delta' | 'reasoning-delta' | 'tool-input-delta' }>;

/**
 * An `experimental_transform` for `streamText` that merges deltas which stand next to each other, so that a user interface is told once in
 * `maxWaitMs` and not for each token. The text stays the same, and so does the order of all parts.
 *
 * - **Merges** `text-delta`, `reasoning-delta` and `tool-input-delta`, each with neighbours of its kind and id. Never one with
 *   `providerMetadata`: those belong to that one delta.
 * - **Emits when** the first delta has waited `maxWaitMs`, when `maxChars` are reached, before any part that cannot be merged, at the end and
 *   before an error. Other parts never wait.
 * - **Holds at most** `maxChars` characters (or one delta that is longer), and reads on only while its own reader waits.
 * - **On cancel** what waits is dropped and the timer is gone.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { toReadableStream } from 'sluice/operators';
 * import { coalesceText } from 'sluice/ai-sdk';
 *
 * const transform = coalesceText({ maxWaitMs: 16 })({ tools: {}, stopStream: () => undefined });
 * const deltas = ['Hel', 'lo', ' world'].map((text) => ({ type: 'text-delta', id: 't1', text }) as const);
 * const seen: unknown[] = [];
 * for await (const part of toReadableStream(from(deltas)).pipeThrough(transform)) seen.push(part);
 * seen; // => [{ type: 'text-delta', id: 't1', text: 'Hello world' }]
 * ```
 * @see `coalesce` of `sluice/operators` for the same on an Observable of any events.
 */
export function coalesceText<TOOLS extends ToolSet>(options: CoalesceTextOptions = {}): StreamTextTransform<TOOLS> {
  const { maxWaitMs, maxChars, scheduler } = check.options('coalesceText', options, COALESCE_TEXT_DEFAULTS, {
    maxWaitMs: check.durationMs,
    maxChars: check.count,
    scheduler: check.scheduler,
  });
  const merging = coalesceDeltas<TextStreamPart<TOOLS>>(
    'coalesceText',
    {
      key: (part) => (isDelta(part) && part.providerMetadata === undefined ? `${part.type} ${part.id}` : undefined),
      text: (part) => textOf(part as Delta),
      join: (first, next) => joined(first as Delta, next as Delta),
      // All parts keep their order.
      beside: () => false,
    },
    { maxWaitMs, maxChars, scheduler },
  );
  return () => {
    const { readable, writable } = new TransformStream<TextStreamPart<TOOLS>, TextStreamPart<TOOLS>>();
    return { writable, readable: drawnStream(readable, merging) };
  };
}

function isDelta(part: Part): part is Delta {
  return part.type === 'text-delta' || part.type === 'reasoning-delta' || part.type === 'tool-input-delta';
}

function textOf(delta: Delta): string {
  return delta.type === 'tool-input-delta' ? delta.delta : delta.text;
}

function joined(first: Delta, next: Delta): Delta {
  const text = textOf(first) + textOf(next);
  return first.type === 'tool-input-delta' ? { ...first, delta: text } : { ...first, text };
}
