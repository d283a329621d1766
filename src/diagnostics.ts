import { channel } from 'node:diagnostics_channel';
import type { FlowEvent } from '../operators/index.js';
import { readEvent } from './inspector/read-event.js';
import type { CallRecord } from './metrics/call-record.js';

export type { FlowEvent } from '../operators/index.js';
export type { CallRecord } from './metrics/call-record.js';

/** Names of the channels of `node:diagnostics_channel`. */
const CHANNELS = { event: 'sluice:event', record: 'sluice:record' } as const;

/**
 * Publishes an event on the channel `sluice:event`, if the channel has a subscriber: pass it as `onEvent`. A vendor's agent or a test that watches
 * the process needs only the name of the channel. Node only.
 *
 * - A message is an event with the fields of its type only; other fields of the object are left out.
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
 * Publishes the record of a model call on the channel `sluice:record`, if the channel has a subscriber: pass it as `onRecord`. Node only.
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
