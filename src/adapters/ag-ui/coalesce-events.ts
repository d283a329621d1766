import type { DeltaOptions, DeltaRule } from '../support/coalesce-deltas.js';
import { coalesceDeltas } from '../support/coalesce-deltas.js';
import { ours } from './streams.js';
import type { AguiEvent, AguiStream } from './types.js';

/** Deltas of a text; in the short form they open and close it as well. */
const DELTA = /^(?:(?:THINKING_TEXT|TEXT|REASONING)_MESSAGE_CONTENT|TOOL_CALL_ARGS|((?:TEXT|REASONING)_MESSAGE|TOOL_CALL)_CHUNK)$/;
/** What two pieces of one text may differ in. */
const OF_ONE_PIECE: ReadonlySet<string> = new Set(['delta', 'metadata', 'timestamp']);

/**
 * Merges the deltas of AG-UI's events: one message, one tool call or one thought becomes a few large events instead of a thousand small ones. For
 * whatever sees the events, a middleware or `run$`; `aguiFlow` has it as `coalesce`.
 *
 * ```text
 * source   -s-a-b-----c-d-e|      s = start and e = end of a message
 *          coalesceEvents({ maxWaitMs: 5 })
 * result   -s------x------(ye|)
 *          x = "ab"
 *          y = "cd"
 * ```
 *
 * - **Emits when** what waits is `maxWaitMs` old, an animation frame comes (`pace: 'frame'`), `maxChars` is reached, or anything but a delta comes:
 *   that goes at once, behind all that waits. Deltas of several messages, tool calls and sub-agents wait side by side.
 * - **Merges** `TEXT_MESSAGE_CONTENT`, `REASONING_MESSAGE_CONTENT`, `THINKING_TEXT_MESSAGE_CONTENT` and `TOOL_CALL_ARGS` of the same text and
 *   `subagentRunId`, and neighbours of the forms with `CHUNK`. `metadata` is merged, later keys win; the timestamp is that of the last one. What has a
 *   `rawEvent`, or another field that its neighbour has not, stays by itself.
 * - **Holds at most** `maxChars` characters of text.
 * - **Drops** nothing.
 * - **Completes when** the source completes, after what waits; **errors when** it errors, with the same error, after what waits.
 * - **On unsubscribe** what waits is dropped, and its timer is cleared.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { coalesceEvents } from 'sluice/ag-ui';
 *
 * const piece = (delta: string) => ({ type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta });
 * const seen: unknown[] = [];
 * of(piece('Hel'), piece('lo'), { type: 'TEXT_MESSAGE_END', messageId: 'm' })
 *   .pipe(coalesceEvents())
 *   .subscribe((event) => seen.push('delta' in event ? event.delta : event.type));
 * seen; // => ['Hello', 'TEXT_MESSAGE_END']
 * ```
 */
export function coalesceEvents(options: DeltaOptions = {}): <O extends AguiStream>(source: O) => O {
  return coalescing('coalesceEvents', options);
}

/** @param operator - whose options they are, and what they are part of there */
export function coalescing(operator: string, options: DeltaOptions, within = ''): <O extends AguiStream>(source: O) => O {
  const rule: DeltaRule<AguiEvent> = {
    key: keyOf,
    text: ({ delta }) => delta as string,
    join,
    beside: (waiting, next) => !isShort(waiting) && !isShort(next) && textOf(waiting) !== textOf(next),
  };
  const merging = coalesceDeltas(operator, options, rule, within);
  return <O extends AguiStream>(source: O) => merging(ours(source)) as unknown as O;
}

/** Everything that two pieces of a text have in common; undefined for what stays as it is. */
function keyOf(event: AguiEvent): string | undefined {
  if (typeof event['delta'] !== 'string' || event['rawEvent'] !== undefined || !DELTA.test(event.type)) return undefined;
  let key = '';
  for (const name in event) {
    const value = event[name];
    if (typeof value === 'object' ? name !== 'metadata' || value === null : name === 'metadata' && value !== undefined) return undefined;
    if (!OF_ONE_PIECE.has(name) && value !== undefined) key += `${name}:${JSON.stringify(value)},`;
  }
  return key;
}

function join(first: AguiEvent, next: AguiEvent): AguiEvent {
  const merged: Record<string, unknown> = { ...first };
  merged['delta'] = `${first['delta'] as string}${next['delta'] as string}`;
  if (next['timestamp'] !== undefined) merged['timestamp'] = next['timestamp'];
  if (next['metadata'] !== undefined) merged['metadata'] = { ...(first['metadata'] as object), ...(next['metadata'] as object) };
  return merged as unknown as AguiEvent;
}

/** A short form goes on with "the one before", so it may not change places with anything. */
function isShort({ type }: AguiEvent): boolean {
  return type.endsWith('_CHUNK');
}

/** The text a piece belongs to, whoever says so: pieces of one text never change places. */
function textOf({ type, messageId, toolCallId }: AguiEvent): string {
  return JSON.stringify(type === 'TOOL_CALL_ARGS' ? ['call', toolCallId] : ['message', messageId]);
}
