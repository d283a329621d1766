import { type CallRecord, type CallStatus, CHANNELS, type FlowEvent, publishEvent, publishRecord } from 'sluice/diagnostics';

same<(event: FlowEvent) => void>()(publishEvent);
same<(record: CallRecord) => void>()(publishRecord);
export const names: readonly string[] = Object.values(CHANNELS);
export const good: CallStatus = 'success';
