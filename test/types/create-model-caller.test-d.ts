import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { FlowEvent, Handle, Settled } from '../../operators/index.js';
import type { Drained } from '../../operators/options/types.js';
import { answerCache, callAll } from '../../src/index.js';
import type { CallRecord } from '../../src/metrics/call-record.js';
import type { MetricsSnapshot } from '../../src/metrics/create-metrics.js';
import { createMetrics } from '../../src/metrics/create-metrics.js';
import type {
  AnswerStorage,
  ChatChunk,
  ChatCompletion,
  ChatRequest,
  ModelCaller,
  ModelCallerSnapshot,
  ModelClient,
  ModelEntry,
} from '../../src/pipelines/create-model-caller.js';
import { chatCompletions, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { presets } from '../../src/pipelines/presets.js';

interface Question {
  readonly text: string;
}

const call = (question: Question) => Promise.resolve({ answer: question.text.length });

describe('createModelCaller', () => {
  it('takes requests and gives answers as its client does', () => {
    const models = createModelCaller({ call });
    expectTypeOf(models).toEqualTypeOf<ModelCaller<Question, { answer: number }, never>>();
    expectTypeOf(models.call({ text: 'a' })).toEqualTypeOf<Observable<{ answer: number }>>();
    expectTypeOf(models.callAsync({ text: 'a' }, { lane: 'user' })).toEqualTypeOf<Promise<{ answer: number }>>();
    // @ts-expect-error -- no question
    void models.call('a');
    expectTypeOf(models).toExtend<Handle>();
    expectTypeOf(models.drain()).toEqualTypeOf<Promise<Drained>>();
    expectTypeOf(models.events).toEqualTypeOf<Observable<FlowEvent>>();
    expectTypeOf(models.snapshot()).toEqualTypeOf<ModelCallerSnapshot>();
  });

  it('gives what `parse` makes of an answer, and chunks as the stream has them', () => {
    const models = createModelCaller({
      call: { send: call, stream: (question: Question) => of(question.text) },
      parse: ({ answer }, question) => [answer, question.text] as const,
    });
    expectTypeOf(models.call({ text: 'a' })).toEqualTypeOf<Observable<readonly [number, string]>>();
    expectTypeOf(models.stream({ text: 'a' })).toEqualTypeOf<Observable<string>>();
  });

  it('names the results of a group as its requests', () => {
    const models = createModelCaller({ call });
    const requests = { one: { text: 'a' }, two: { text: 'b' } };
    expectTypeOf(callAll(models, requests)).toEqualTypeOf<Observable<Record<'one' | 'two', { answer: number }>>>();
    expectTypeOf(callAll(models, requests, { deadlineMs: 5 })).toEqualTypeOf<Observable<Record<'one' | 'two', { answer: number }>>>();
    expectTypeOf(callAll(models, requests, { errors: 'settle' })).toEqualTypeOf<
      Observable<Record<'one' | 'two', Settled<Question, { answer: number }>>>
    >();
  });

  it('collects values and errors by the names of the requests', () => {
    const models = createModelCaller({ call });
    callAll(models, { one: { text: 'a' }, two: { text: 'b' } }, { errors: 'collect', key: 'tenant' }).subscribe(({ values, errors }) => {
      expectTypeOf(values).toEqualTypeOf<Readonly<Partial<Record<'one' | 'two', { answer: number }>>>>();
      expectTypeOf(errors).toEqualTypeOf<Readonly<Partial<Record<'one' | 'two', unknown>>>>();
    });
  });

  it('tells a repair the request and the answer, and takes a request', () => {
    createModelCaller({
      call,
      parse: ({ answer }) => String(answer),
      fixAnswer: {
        ask: (question, answer, fault) => {
          expectTypeOf(question).toEqualTypeOf<Question>();
          expectTypeOf(answer).toEqualTypeOf<{ answer: number }>();
          expectTypeOf(fault).toEqualTypeOf<unknown>();
          return question;
        },
      },
    });
    // @ts-expect-error -- no question
    createModelCaller({ call, parse: String, fixAnswer: { ask: () => 'again' } });
  });

  it('keeps results in any store for them: a map is one', () => {
    const store = new Map<string, ModelEntry<string>>();
    expectTypeOf(store).toExtend<AnswerStorage<string>>();
    const models = createModelCaller({
      call,
      parse: ({ answer }) => String(answer),
      cache: answerCache({ key: ({ text }: Question) => text, storage: store }),
    });
    expectTypeOf(models).toEqualTypeOf<ModelCaller<Question, string, never>>();
    expectTypeOf(models.forget({ text: 'a' })).toEqualTypeOf<void>();
    const parsed = createModelCaller({
      call,
      parse: ({ answer }) => String(answer),
      cache: answerCache({ key: ({ text }: Question) => text }),
    });
    expectTypeOf(parsed).toEqualTypeOf<ModelCaller<Question, string, never>>();
    const plain = createModelCaller({ call, cache: answerCache({ key: ({ text }: Question) => text }) });
    expectTypeOf(plain).toEqualTypeOf<ModelCaller<Question, { answer: number }, never>>();
    // @ts-expect-error -- no text
    createModelCaller({ call, cache: answerCache({ key: ({ text }: Question) => text.length }) });
    createModelCaller({
      call: chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm' }),
      cache: answerCache({ key: ({ messages }: ChatRequest) => JSON.stringify(messages) }),
    });
  });

  it('knows the shapes of a chat', () => {
    const chat = createModelCaller({
      call: chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm' }),
      ...presets.modelCaller.production,
    });
    expectTypeOf(chat).toEqualTypeOf<ModelCaller<ChatRequest, ChatCompletion, ChatChunk>>();
    const parsed = createModelCaller({
      call: chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm' }),
      parse: (answer) => answer.choices.length,
    });
    expectTypeOf(parsed.call({ messages: [] })).toEqualTypeOf<Observable<number>>();
  });

  it('takes one kind of client', () => {
    // @ts-expect-error -- neither
    createModelCaller({ concurrency: 4 });
    // @ts-expect-error -- an endpoint without a model
    createModelCaller({ call: chatCompletions({ baseUrl: 'http://127.0.0.1/v1' }) });
    // @ts-expect-error -- those go to `chatCompletions`
    createModelCaller({ baseUrl: 'http://127.0.0.1/v1', model: 'm' });
  });

  it('takes clients as values, of ours and of your own', () => {
    const client = { send: (question: string) => of(question.length), stream: (question: string) => of(question) };
    expectTypeOf(createModelCaller({ call: client })).toEqualTypeOf<ModelCaller<string, number, string>>();
    expectTypeOf(client).toExtend<ModelClient<string, number, string>>();
    expectTypeOf(chatCompletions).returns.toEqualTypeOf<ModelClient<ChatRequest, ChatCompletion, ChatChunk>>();
    const inPlace = createModelCaller({
      call: {
        send: (question: Question, { signal }) => {
          expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
          return of({ text: question.text, used: 5 });
        },
        stream: ({ text }) => of(text.length),
        usage: (answer) => {
          expectTypeOf(answer).toEqualTypeOf<{ text: string; used: number } | number>();
          return undefined;
        },
        cost: (question) => question.text.length,
        model: ({ text }) => text,
      },
      parse: ({ used }) => used > 1,
    });
    expectTypeOf(inPlace).toEqualTypeOf<ModelCaller<Question, boolean, number>>();
    // @ts-expect-error -- a field of the client
    createModelCaller({ call, usage: () => undefined });
    // @ts-expect-error -- it sends nothing
    createModelCaller({ call: { stream: (question: string) => of(question) } });
  });
});

describe('createMetrics', () => {
  it('takes events and records, and tells numbers', () => {
    const metrics = createMetrics();
    expectTypeOf(metrics.sink).toEqualTypeOf<(event: FlowEvent) => void>();
    expectTypeOf(metrics.record).toEqualTypeOf<(record: CallRecord) => void>();
    expectTypeOf(metrics.metrics$).toEqualTypeOf<Observable<MetricsSnapshot>>();
    expectTypeOf(metrics.observe('models', createModelCaller({ call }))).toEqualTypeOf<() => void>();
    expectTypeOf(metrics.snapshot().calls.byCode).toEqualTypeOf<
      Readonly<Record<string, { readonly count: number; readonly rate: number }>>
    >();
  });
});
