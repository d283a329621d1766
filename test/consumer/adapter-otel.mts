import { createModelCaller } from 'sluice';
import { createLimiter } from 'sluice/operators';
import {
  type CallRecord,
  type CallStatus,
  createOtel,
  FLOW_NAMES,
  GEN_AI_NAMES,
  type Observed,
  type Otel,
  type OtelNames,
  type OtelOptions,
} from 'sluice/otel';

const names: Partial<OtelNames> = { ...GEN_AI_NAMES, modelDuration: 'gen_ai.client.inference.duration' };
const options: OtelOptions = { names, modelAttributes: { 'gen_ai.provider.name': 'openai' }, maxLabels: 50 };
const otel: Otel = createOtel(options);
createModelCaller({ call: (question: string) => Promise.resolve(question), onEvent: otel.sink, onRecord: otel.record });
const limiter: Observed = createLimiter();
same<() => void>()(otel.observe('account', limiter));
same<'flow.call'>()(FLOW_NAMES.callSpan);
export const statusOf = (record: CallRecord): CallStatus => record.status;
