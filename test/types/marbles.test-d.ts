import type { Observable } from 'rxjs';
import { map, of } from 'rxjs';
import { describe, expect, expectTypeOf, it } from 'vitest';
import type { FakeProvider, FakeProviderCall, LawSubject, MarbleTest, Recording, SpecKit, Worker } from '../../marbles/index.js';
import {
  checkLaws,
  createWorker,
  draw,
  drawSvg,
  fakeProvider,
  leakCheck,
  runSpec,
  seededRandom,
  virtualTime,
} from '../../marbles/index.js';
import type { MarbleMatchers } from '../../marbles/vitest.js';
import { marbleMatchers } from '../../marbles/vitest.js';
import type { batchMap } from '../../operators/index.js';
import { batch, createLimiter } from '../../operators/index.js';

const build = ({ input }: SpecKit) => input('source');

describe('a spec', () => {
  it('may leave out what only names it', () => {
    const test: MarbleTest = { inputs: { source: '-a|' }, expected: '-a|', build };
    expectTypeOf(runSpec(test, () => true)).toEqualTypeOf<Recording>();
    expectTypeOf(draw({ inputs: { source: '-a|' }, build })).toEqualTypeOf<string>();
    expectTypeOf(drawSvg({ inputs: { source: '-a|' }, build })).toEqualTypeOf<string>();
    // @ts-expect-error a test says what it expects
    runSpec({ inputs: { source: '-a|' }, build }, () => true);
    // @ts-expect-error and what is built
    draw({ inputs: { source: '-a|' } });
  });

  it('hands out streams of the type that is named, and texts otherwise', () => {
    const test: MarbleTest = {
      inputs: {},
      expected: '',
      build: ({ input, inner, watch }) => {
        expectTypeOf(input('source')).toEqualTypeOf<Observable<string>>();
        expectTypeOf(inner<number>('call')).toEqualTypeOf<Observable<number>>();
        expectTypeOf(watch('call', of(1))).toEqualTypeOf<Observable<number>>();
        return input('source');
      },
    };
    expectTypeOf(test.operator).toEqualTypeOf<string | undefined>();
  });
});

describe('fakeProvider', () => {
  it('makes work for batches and for single items, typed by `answer`', () => {
    const provider = fakeProvider({ answer: (text: string) => text.length, poisoned: ['bad'] });
    expectTypeOf(provider).toEqualTypeOf<FakeProvider<string, number>>();
    expectTypeOf(provider.work(['a'])).toEqualTypeOf<Observable<number[]>>();
    expectTypeOf(provider.workOne('a')).toEqualTypeOf<Observable<number>>();
    expectTypeOf(provider.calls).toEqualTypeOf<readonly FakeProviderCall<string>[]>();
    expectTypeOf(provider.work).toExtend<Parameters<typeof batchMap<string, number>>[0]>();
  });

  it('refuses wrong options', () => {
    // @ts-expect-error `answer` has no default
    fakeProvider({});
    // @ts-expect-error not a kind of accident
    fakeProvider({ answer: String, errorRate: { burnt: 1 } });
    // @ts-expect-error both parts of a latency are said
    fakeProvider({ answer: String, latencyMs: { base: 1 } });
  });
});

describe('createWorker', () => {
  it('is typed by `answer`, and takes marbles as a text, a list or a function', () => {
    expectTypeOf(createWorker({ marbles: '-r|', answer: (text: string) => text.length })).toEqualTypeOf<Worker<string, number>>();
    expectTypeOf(createWorker<Date, number>({ marbles: ['-r|'], answer: () => 1 })).toEqualTypeOf<Worker<Date, number>>();
    createWorker({ marbles: (text: string, call) => `${'-'.repeat(call)}${text}|`, answer: (_text, _call, letter) => letter });
  });
});

describe('the rest of the kit', () => {
  it('says what it takes and gives', () => {
    const leaks = leakCheck({ holders: { limiter: createLimiter(), provider: fakeProvider({ answer: String }) } });
    expectTypeOf(leaks.watch('numbers', of(1))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(leaks.left()).toEqualTypeOf<readonly string[]>();
    leaks.verify();
    // @ts-expect-error holds nothing
    leakCheck({ holders: { none: {} } });
    expectTypeOf(virtualTime(({ now }) => now())).toEqualTypeOf<number>();
    expectTypeOf(seededRandom(1)).toEqualTypeOf<() => number>();
    const subject = { operator: 'batch', create: () => batch<number>(), itemsOf: (items: number[]) => items, holdsAtMost: 16 };
    expectTypeOf(subject).toExtend<LawSubject<number[]>>();
    expectTypeOf(checkLaws(subject)).toEqualTypeOf<readonly string[]>();
  });
});

describe('the matchers', () => {
  it('are known to vitest', () => {
    expect.extend(marbleMatchers);
    expectTypeOf(expect(build)).toExtend<MarbleMatchers>();
    expect(build).toMatchMarbles({ inputs: { source: '-a|' }, expected: '-a|' });
    expect(() => of(1).pipe(map((item) => String(item)))).toEmit('(a|)', { values: { a: '1' } });
    expect(leakCheck()).toLeaveNothing();
    // @ts-expect-error nothing to compare with
    expect(build).toMatchMarbles({ inputs: { source: '-a|' } });
    // @ts-expect-error marbles are a text
    expect(of(1)).toEmit(3);
  });
});
