import { channel } from 'node:diagnostics_channel';
import type { FlowEvent } from '../operators/index.js';
import { readEvent } from './inspector/read-event.js';
import type { CallRecord } from './metrics/call-record.js';

export type { FlowEvent } from '../operators/index.js';
export type { CallRecord } from './metrics/call-record.js';

/** Names of the channels of `node:diagnostics_channel`. */
const CHANNELS = { event: 'sluice:event', record: 'sluice:record' } as const;

/**
 * Publishes an event on the channel `sluice:event`, when anybody has subscribed to it: give it as `onEvent`. Whoever watches a process (an agent
 * of a vendor, a test) needs nothing of the program for that but the name of the channel. Node only.
 *
 * - A message is an event with the fields that an event of its type has, and nothing that somebody put beside them.
 * - Without a subscriber nothing is made and nothing is published.
 *
 * @beta
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel';
 * import { from } from 'rxjs';
 * import { batchMap } from 'sluice';
 * import { publishEvent } from 'sluice/diagnostics';
 *
 * const seen = new Set();
 * subscribe('sluice:event', (event) => seen.add((event as { type: string }).type));
 * await from([1, 2]).pipe(batchMap(async (xs) => xs, { onEvent: publishEvent })).forEach(() => undefined);
 * seen.has('settled'); // => true
 * ```
 */
export function publishEvent(event: FlowEvent): void {
  const events = channel(CHANNELS.event);
  if (!events.hasSubscribers) return;
  const read = readEvent(event);
  if (read) events.publish(read);
}

/**
 * Publishes the record of a model call on the channel `sluice:record`, when anybody has subscribed to it: give it as `onRecord`. Node only.
 *
 * @beta
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel';
 * import { createAccount, createModelCaller } from 'sluice';
 * import { publishRecord } from 'sluice/diagnostics';
 *
 * const seen: unknown[] = [];
 * subscribe('sluice:record', (record) => seen.push((record as { status: string }).status));
 * const limiter = createAccount({ onRecord: publishRecord });
 * await createModelCaller({ call: async (question: string) => question, limiter }).callAsync('why?');
 * seen; // => ['success']
 * ```
 */
export function publishRecord(record: CallRecord): void {
  const records = channel(CHANNELS.record);
  if (records.hasSubscribers) records.publish(record);
}
