import { asyncScheduler, bufferCount, concatMap, delay, map, merge, mergeMap, NEVER, Observable, retry } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { renderPage, renderText } from '../../marbles/render-text.js';
import type { AssertEqual } from '../../marbles/run.js';
import { MarbleMismatchError, record, runSpec } from '../../marbles/run.js';
import type { MarbleSpec } from '../../marbles/spec.js';
import { assertEqual } from '../support/marble-files.js';

const passes: MarbleSpec = {
  operator: 'pass',
  title: 'passes everything on',
  label: 'pass()',
  inputs: { source: '-a-b-|' },
  subscriptions: { source: '^----!' },
  expected: '-a-b-|',
  build: ({ input }) => input('source'),
};
const drawing = (spec: Partial<MarbleSpec>): string => renderText({ ...passes, ...spec }, record({ ...passes, ...spec }));
const mismatch = (spec: Partial<MarbleSpec>, equal: AssertEqual = assertEqual): string => {
  try {
    runSpec({ ...passes, ...spec }, equal);
  } catch (error) {
    expect(error).toBeInstanceOf(MarbleMismatchError);
    return (error as Error).message;
  }
  throw new Error('the spec passed');
};

describe('runSpec', () => {
  it('returns what really happened', () => {
    expect(runSpec({ ...passes, unsub: '---!', subscriptions: { source: '^--!' }, expected: '-a--' }, assertEqual)).toEqual({
      inputs: [{ name: 'source', from: 0, leftAt: 3, marks: [{ frame: 1, kind: 'next', value: 'a' }] }],
      inners: [],
      result: { name: 'result', from: 0, leftAt: 3, marks: [{ frame: 1, kind: 'next', value: 'a' }] },
      leftBehind: 0,
    });
  });

  it('draws a wrong result beside the expected one', () => {
    expect(mismatch({ expected: '--a-b|', build: ({ input }) => input('source').pipe(map((letter) => [letter])) })).toBe(
      [
        'pass: passes everything on',
        'expected  --a-b|',
        'received  -x-y-|',
        '          x = ["a"]',
        '          y = ["b"]',
        'first difference: expected "a" at 2 ms, received ["a"] at 1 ms',
      ].join('\n'),
    );
  });

  it('understands an assertion that answers false instead of throwing', () => {
    expect(mismatch({}, () => false)).toContain('expected  -a-b-|\nreceived  -a-b-|');
    expect(runSpec(passes, () => true).leftBehind).toBe(0);
  });

  it('keeps the test runner’s own report as the cause', () => {
    const cause = new Error('the runner says why');
    const failing = (): void => {
      runSpec(passes, () => {
        throw cause;
      });
    };
    expect(failing).toThrow(expect.objectContaining({ cause }));
  });

  it('says when a subscription was made and left', () => {
    expect(mismatch({ subscriptions: { source: '^--!' } })).toBe(
      'pass: passes everything on\nsubscriptions to source: expected 0 ms to 3 ms; received 0 ms to 5 ms',
    );
    expect(mismatch({ subscriptions: { source: [] } })).toContain('expected none; received 0 ms to 5 ms');
    expect(mismatch({ inputs: { source: '-' }, expected: '-' })).toContain('received 0 ms to the end');
  });

  it('notices a timer left behind, whether the consumer leaves or the stream ends', () => {
    const build: MarbleSpec['build'] = ({ input }) => {
      return new Observable((to) => {
        asyncScheduler.schedule(() => undefined, 1000);
        return input('source').subscribe(to);
      });
    };
    const left = '1 scheduler action(s) left behind after the end';
    expect(mismatch({ build })).toContain(left);
    expect(mismatch({ build, unsub: '---!', subscriptions: { source: '^--!' }, expected: '-a--' })).toContain(left);
  });

  it('refuses names that are not declared, and a consumer that never comes', () => {
    expect(() => record({ ...passes, build: ({ input }) => input('sauce') })).toThrow("no input is named 'sauce'; the spec has 'source'");
    expect(() => record({ ...passes, build: ({ inner }) => inner('call') })).toThrow("no inner stream is named 'call'");
    expect(() => record({ ...passes, unsub: '---' })).toThrow('the consumer never subscribes');
  });

  it('gives letters their values, in all streams', () => {
    const values = { a: { text: 'hello' } };
    const { inputs } = runSpec({ ...passes, values }, assertEqual);
    expect(inputs[0]?.marks[0]).toEqual({ frame: 1, kind: 'next', value: values.a });
  });

  it('emits the first frame of a synchronous input inside subscribe, and no more than is wanted', () => {
    const synchronous: MarbleSpec = { ...passes, inputs: { source: '(abc)-d|' }, synchronous: ['source'], subscriptions: {}, expected: '' };
    const seen: unknown[] = [];
    const build: MarbleSpec['build'] = ({ input }) => {
      return new Observable((to) => {
        const feed = input('source').subscribe((letter) => seen.push(letter));
        to.next([...seen]);
        to.add(feed);
        to.complete();
      });
    };
    const { result } = record({ ...synchronous, build });
    expect(result.marks[0]).toEqual({ frame: 0, kind: 'next', value: ['a', 'b', 'c'] });
    expect(seen).toEqual(['a', 'b', 'c']);
  });
});

describe('renderText', () => {
  it('draws inner streams where they are really subscribed to', () => {
    const inners = { a: '---x|', b: '--y|' };
    const build: MarbleSpec['build'] = ({ input, inner }) => input('source').pipe(concatMap((letter) => inner(letter)));
    expect(drawing({ label: 'concatMap(call)', inners, build })).toBe(
      ['source  -a-b-|', '        concatMap(call)', 'a        ---x|', 'b          ..--y|', 'result  ----x--y|'].join('\n'),
    );
  });

  it('draws waiting from when an item came to when its stream is subscribed to, once per item and try', () => {
    const build: MarbleSpec['build'] = ({ input, inner }) => input('source').pipe(concatMap((letter) => inner(letter).pipe(retry(1))));
    expect(drawing({ inputs: { source: 'a-|' }, inners: { a: '--#' }, error: 'busy', build })).toContain(
      ['a       --#', 'a         --#', 'result  ----#'].join('\n'),
    );
    const queued: MarbleSpec['build'] = ({ input, inner }) => input('source').pipe(concatMap((letter) => inner(letter)));
    expect(drawing({ inputs: { source: 'aaa|' }, inners: { a: '--x|' }, build: queued })).toContain(
      ['a       --x|', 'a        ..--x|', 'a         ....--x|'].join('\n'),
    );
    const together: MarbleSpec['build'] = ({ input, inner }) =>
      input('source').pipe(
        bufferCount(2),
        concatMap((letters) => inner(letters.join(''))),
      );
    expect(drawing({ inputs: { source: 'a--b|' }, inners: { ab: '-x|' }, build: together })).toContain('ab      ...-x|');
  });

  it('knows items by their values, and draws no waiting for a stream that is not named after items', () => {
    const values = { a: { id: 1 }, b: { id: 2 } };
    const build: MarbleSpec['build'] = ({ input, inner }) =>
      input<{ id: number }>('source').pipe(concatMap(({ id }) => inner(id === 1 ? 'a' : 'b')));
    const inners = { a: '---x|', b: '--y|' };
    expect(drawing({ values, inners, build })).toContain('b          ..--y|');
    expect(
      drawing({ inners: { call: '---x|' }, build: ({ input, inner }) => input('source').pipe(concatMap(() => inner('call'))) }),
    ).toContain('call         ---x|');
  });

  it('tells a dot from waiting', () => {
    expect(drawing({ inputs: { source: '-.|' } })).toContain('result  -x|\n        x = "."');
  });

  it('draws unsubscriptions, and rows that continue', () => {
    const build: MarbleSpec['build'] = ({ input, inner }) => merge(input('source'), inner('call'));
    expect(drawing({ inputs: { source: '-a-#' }, inners: { call: '-' }, build })).toBe(
      ['source  -a-#', '        pass()', 'call    ---!', 'result  -a-#', '        # = "error"'].join('\n'),
    );
    expect(drawing({ inputs: { source: '-a-' }, build: ({ input }) => merge(input('source'), NEVER) })).toBe(
      ['source  -a-', '        pass()', 'result  -a-'].join('\n'),
    );
  });

  it('draws a subscription per row, a late consumer and a hot source from where they begin', () => {
    const fails: Partial<MarbleSpec> = { inputs: { source: '-a#' }, build: ({ input }) => input('source').pipe(retry(1)) };
    expect(drawing(fails)).toBe(['source  -a#', 'source    -a#', '        pass()', 'result  -a-a#', '        # = "error"'].join('\n'));
    expect(drawing({ inputs: { source: '^-a-b|' }, unsub: '---^' })).toBe(
      ['source     -b|', '        pass()', 'result     -b|'].join('\n'),
    );
  });

  it('names values that are no letters, equal ones alike, those of the spec by its own letter', () => {
    const build: MarbleSpec['build'] = ({ input }) => input('source').pipe(map((letter) => ({ letter })));
    const text = drawing({ inputs: { source: 'xaqxy|' }, values: { k: { letter: 'q' } }, build });
    expect(text).toBe(
      [
        'source  xaqxy|',
        '        pass()',
        'result  zwkzv|',
        '        z = {"letter":"x"}',
        '        w = {"letter":"a"}',
        '        k = {"letter":"q"}',
        '        v = {"letter":"y"}',
      ].join('\n'),
    );
  });

  it('shortens silence and keeps groups as wide as RxJS does', () => {
    const build: MarbleSpec['build'] = ({ input }) => input('source').pipe(delay(20));
    expect(drawing({ inputs: { source: '(ab)-c|' }, build })).toBe(
      ['source  (ab)-c|', '        pass()', 'result  ------- 13ms (ab)-(c|)'].join('\n'),
    );
  });

  it('stretches time only where a frame inside a group is needed', () => {
    const build: MarbleSpec['build'] = ({ input }) => input('source').pipe(mergeMap((letter) => [letter, letter]));
    expect(drawing({ inputs: { source: '-ab|' }, build })).toBe(['source  -a---b---|', '        pass()', 'result  -(aa)(bb)|'].join('\n'));
  });

  it('describes errors by name and message, also inside values', () => {
    const error = new TypeError('no such tool');
    const text = drawing({ inputs: { source: '-a#' }, error, build: ({ input }) => input('source').pipe(map(() => [error])) });
    expect(text).toContain('x = ["TypeError: no such tool"]');
    expect(text).toContain('# = TypeError: no such tool');
  });

  it('says so when a drawing needs more names than there are', () => {
    const build: MarbleSpec['build'] = () =>
      new Observable((to) => {
        for (let value = 100; value < 200; value++) to.next(value);
      });
    expect(() => renderText(passes, record({ ...passes, build }))).toThrow('a drawing can name 52 different values, this one needs more');
  });
});

describe('renderPage', () => {
  it('says where it comes from', () => {
    expect(renderPage('marbles/specs/pass.marbles.ts', [{ title: 'passes', text: 'result -|' }])).toBe(
      'Generated from marbles/specs/pass.marbles.ts by running it: do not edit.\n\n## passes\n\nresult -|\n',
    );
  });
});
