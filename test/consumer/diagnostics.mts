import { type CallRecord, type FlowEvent, publishEvent, publishRecord } from 'sluice/diagnostics';

same<(event: FlowEvent) => void>()(publishEvent);
same<(record: CallRecord) => void>()(publishRecord);
export const good = 'success';
