import { createModelCaller, createAccount } from 'sluice';
import { createLimiter } from 'sluice/operators';
import { type CallRecord, createOtel, GEN_AI_NAMES, type Otel, type OtelOptions } from 'sluice/otel';

const names = { ...GEN_AI_NAMES, modelDuration: 'gen_ai.client.inference.duration' };
const options: OtelOptions = { names, modelAttributes: { 'gen_ai.provider.name': 'openai' }, maxLabels: 50 };
const otel: Otel = createOtel(options);
createModelCaller({ call: (question: string) => Promise.resolve(question), onEvent: otel.sink, onRecord: otel.record, limiter: createAccount({ concurrency: 4 }) });
const limiter = createLimiter();
same<() => void>()(otel.observe('account', limiter));
