import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { ToReadableStreamOptions } from '../../operators/index.js';
import { toReadableStream } from '../../operators/index.js';

describe('toReadableStream', () => {
  it('is the stream of the platform', () => {
    expectTypeOf(toReadableStream(of(1, 2))).toEqualTypeOf<ReadableStream<number>>();
    expectTypeOf(toReadableStream(of('a')).pipeThrough(new TextEncoderStream())).toExtend<BodyInit>();
  });

  it('refuses wrong arguments', () => {
    // @ts-expect-error not an Observable
    void toReadableStream('text');
    // @ts-expect-error not a policy
    void toReadableStream(of(1), { overflow: 'dropLowest' });
    // @ts-expect-error not an option
    void toReadableStream(of(1), { highWaterMark: 3 });
  });

  it('has readonly options', () => {
    expectTypeOf<ToReadableStreamOptions>().toEqualTypeOf<Readonly<ToReadableStreamOptions>>();
  });
});
