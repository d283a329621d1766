import type OpenAI from 'openai';
import type { Observable } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import { fromStream } from '../../operators/index.js';

declare const numbers: AsyncIterable<number>;
declare const letters: AsyncGenerator<'a' | 'b', string, boolean>;
declare const texts: ReadableStream<string>;
declare const bytes: ReadableStream<Uint8Array>;
declare const client: OpenAI;

describe('fromStream', () => {
  it('emits what an async iterable yields', () => {
    expectTypeOf(fromStream(() => numbers)).toEqualTypeOf<Observable<number>>();
    expectTypeOf(fromStream(() => letters)).toEqualTypeOf<Observable<'a' | 'b'>>();
    expectTypeOf(
      fromStream(async function* () {
        yield await Promise.resolve({ text: 'a' });
      }),
    ).toEqualTypeOf<Observable<{ text: string }>>();
  });

  it('emits what a ReadableStream yields', () => {
    expectTypeOf(fromStream(() => texts)).toEqualTypeOf<Observable<string>>();
    expectTypeOf(fromStream(() => bytes)).toEqualTypeOf<Observable<Uint8Array>>();
  });

  it('takes a promise of either', () => {
    expectTypeOf(fromStream(() => Promise.resolve(numbers))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(fromStream(async (signal) => (await fetch('/', { signal })).body!.pipeThrough(new TextDecoderStream()))).toEqualTypeOf<
      Observable<string>
    >();
  });

  it('takes the stream of a client as it is', () => {
    const chunks = fromStream((signal) => client.chat.completions.create({ model: 'm', messages: [], stream: true }, { signal }));
    expectTypeOf(chunks).toEqualTypeOf<Observable<OpenAI.Chat.Completions.ChatCompletionChunk>>();
  });

  it('hands the factory a signal', () => {
    void fromStream((signal) => {
      expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
      return numbers;
    });
  });

  it('refuses a stream in place of a factory, and a factory of something else', () => {
    // @ts-expect-error a stream can be read once; a factory makes a new one
    void fromStream(numbers);
    // @ts-expect-error an array is no stream
    void fromStream(() => [1, 2, 3]);
  });
});
