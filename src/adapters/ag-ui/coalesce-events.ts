import type { DeltaOptions, DeltaRule } from '../support/coalesce-deltas.js';
import { coalesceDeltas } from '../support/coalesce-deltas.js';
import type { AguiEvent, AguiStream } from './types.js';

/** Deltas of a text; in the short form they open and close it as well. */
const DELTA = /_(CONTENT|ARGS|CHUNK)$/;

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
 * @beta
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
export function coalesceEvents(options?: DeltaOptions): <O extends AguiStream>(source: O) => O {
  return coalesceDeltas('coalesceEvents', AGUI_DELTAS, options) as unknown as <O extends AguiStream>(source: O) => O;
}

/** What deltas are in the events of AG-UI. */
export const AGUI_DELTAS: DeltaRule<AguiEvent> = {
  // Everything that two pieces of a text have in common.
  key: ({ delta, timestamp, metadata, rawEvent, ...common }) =>
    typeof delta === 'string' && rawEvent === undefined && typeof (metadata ?? {}) === 'object' && DELTA.test(common.type)
      ? JSON.stringify(common)
      : undefined,
  text: ({ delta }) => delta as string,
  join: (first, next) => ({
    ...first,
    ...next,
    delta: (first['delta'] as string) + (next['delta'] as string),
    ...(first['metadata'] !== undefined && { metadata: { ...(first['metadata'] as object), ...(next['metadata'] as object) } }),
  }),
  // A short form goes on with "the one before", so it may not change places with anything; pieces of one text never do, whoever says so.
  beside: (waiting, next) =>
    !/_CHUNK/.test(waiting.type + next.type) &&
    (waiting['messageId'] !== next['messageId'] || waiting['toolCallId'] !== next['toolCallId']),
};
