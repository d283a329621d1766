import { readFileSync } from 'node:fs';
import { asyncScheduler, concatMap, delay, from, interval, map, NEVER, Observable, of, take, throwError } from 'rxjs';
import { describe, expect, it, test } from 'vitest';
import { fakeProvider } from '../../marbles/index.js';
import { leakCheck } from '../../marbles/leak-check.js';
import type { SpecKit } from '../../marbles/vitest.js';
import { marbleMatchers } from '../../marbles/vitest.js';
import { batch, batchMap, lanes, unwrap } from '../../operators/index.js';

expect.extend(marbleMatchers);

const messageOf = (assertion: () => void): string => {
  try {
    assertion();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('the assertion passed');
};

// The example of the doc comment.
test('batches by two', () => {
  expect(({ input }: SpecKit) => input('source').pipe(batch({ maxSize: 2 }))).toMatchMarbles({
    inputs: { source: '-a-b-c|' },
    expected: '       ---x--(y|)',
    values: { x: ['a', 'b'], y: ['c'] },
  });
});

// The second example of docs/testing.md.
test('sends the item of the user first', () => {
  const by = (text: string) => (text === 'U' ? 'user' : 'background');
  const queue = lanes([{ name: 'user' }, { name: 'background' }], { by });
  const model = fakeProvider({ answer: (text: string) => text, latencyMs: { base: 4, perItem: 1 } });
  const build = ({ input }: SpecKit) => input('source').pipe(batchMap(model.work, { maxSize: 2, concurrency: 1, queue }), unwrap('values'));

  expect(build).toMatchMarbles({ inputs: { source: '-abcU----------------|' }, expected: '------a-----(Ub)-c---|' });
  expect(model.calls.map(({ input }) => input)).toEqual([['a'], ['U', 'b'], ['c']]);
});

describe('toMatchMarbles', () => {
  it('draws what was expected, what was received, and all that happened', () => {
    const failing = (): void => {
      expect(({ input, inner }: SpecKit) => input('source').pipe(concatMap(() => inner('call')))).toMatchMarbles({
        label: 'concatMap(call)',
        inputs: { source: '-a-|' },
        inners: { call: '--r|' },
        expected: '--r-|',
      });
    };
    const message = messageOf(failing);
    expect(message).toMatch(/^expected {2}--r-\|\nreceived {2}---r\|\nfirst difference: .+\n\nWhat happened:\nsource {2}-a-\|\n/);
    expect(readFileSync('docs/testing.md', 'utf8')).toContain(`\`\`\`text drawn by vitest\n${message}\n\`\`\``);
  });

  it('takes asymmetric matchers as values, and draws them by name when they fail', () => {
    const pipeline = ({ input }: SpecKit) => input('source').pipe(map((letter) => ({ letter, at: new Date(0) })));
    const values = { x: expect.objectContaining({ letter: 'a' }) as unknown };
    expect(pipeline).toMatchMarbles({ inputs: { source: '-a|' }, expected: '-x|', values });
    const message = messageOf(() => {
      expect(pipeline).toMatchMarbles({ inputs: { source: '-b|' }, expected: '-x|', values });
    });
    expect(message).toContain('x = ObjectContaining {"letter":"a"}');
    expect(message).toContain('= {"letter":"b","at":"1970-01-01T00:00:00.000Z"}');
  });

  it('fails for a timer left behind and for a subscription that is not as said', () => {
    expect(
      messageOf(() => {
        expect(() => from(['a']).pipe(leavesTimer)).toMatchMarbles({ inputs: {}, expected: '(a|)' });
      }),
    ).toContain('1 scheduler action(s) left behind after the end');
    expect(
      messageOf(() => {
        expect(({ input }: SpecKit) => input('source')).toMatchMarbles({
          inputs: { source: '-a|' },
          subscriptions: { source: '^!' },
          expected: '-a|',
        });
      }),
    ).toContain('subscriptions to source: expected 0 ms to 1 ms; received 0 ms to 2 ms');
  });

  it('can be negated, and then draws what happened', () => {
    expect(({ input }: SpecKit) => input('source')).not.toMatchMarbles({ inputs: { source: '-a|' }, expected: '--a|' });
    const message = messageOf(() => {
      expect(({ input }: SpecKit) => input('source')).not.toMatchMarbles({ inputs: { source: '-a|' }, expected: '-a|' });
    });
    expect(message).toContain('expected something else than -a|');
    expect(message).toContain('result  -a|');
  });

  it('says what it wants, and passes on what the pipeline throws', () => {
    expect(() => {
      expect(of(1)).toMatchMarbles({ inputs: {}, expected: '' });
    }).toThrow('toMatchMarbles: expect(…) wants the `build` of a spec');
    expect(() => {
      expect(() => {
        throw new RangeError('mine');
      }).toMatchMarbles({ inputs: {}, expected: '' });
    }).toThrow(RangeError);
  });
});

describe('toEmit', () => {
  it('compares what a stream emits in virtual time', () => {
    expect(() => interval(2).pipe(take(2))).toEmit('--a-(b|)', { values: { a: 0, b: 1 } });
    expect(of('a').pipe(delay(500))).toEmit('500ms (a|)');
    const fault = new Error('no');
    expect(throwError(() => fault)).toEmit('#', { error: fault });
    expect(() => interval(2)).toEmit('--a-', { values: { a: 0 }, unsub: '^--!' });
    expect(of('a')).not.toEmit('b|');
  });
});

describe('toLeaveNothing', () => {
  it('lets the consumer leave whenever something happens', () => {
    expect(({ input }: SpecKit) => input('source').pipe(batch({ maxWaitMs: 10 }))).toLeaveNothing({ inputs: { source: '-a-b-----c' } });
    expect(() => interval(100)).toLeaveNothing();
  });

  it('names what is left, and when', () => {
    const pipeline = ({ input }: SpecKit) => input('source').pipe(leavesTimer);
    expect(
      messageOf(() => {
        expect(pipeline).toLeaveNothing({ inputs: { source: '-a' } });
      }),
    ).toBe('left behind:\n  - 1 scheduler action(s)\n\nWhat happened:\nsource  !\n        pipeline\nresult  !');
    expect(pipeline).not.toLeaveNothing({ inputs: { source: '-a' }, unsub: '^--!' });
  });

  it('notices a source that is not left, a host timer and a listener', () => {
    const deaf = ({ input }: SpecKit) =>
      new Observable((to) => {
        void input('source').subscribe((letter) => {
          to.next(letter);
        });
      });
    const timers: NodeJS.Timeout[] = [];
    const sleeps = (): Observable<unknown> =>
      new Observable(() => {
        timers.push(setTimeout(() => undefined, 100_000));
        new AbortController().signal.addEventListener('abort', () => undefined);
      });
    expect(
      messageOf(() => {
        expect(deaf).toLeaveNothing({ inputs: { source: '-a' } });
      }),
    ).toContain('a subscription to source');
    const message = messageOf(() => {
      expect(sleeps).toLeaveNothing();
    });
    expect(message).toMatch(/a timeout of 100000 ms, set at .*vitest\.test\.ts/);
    expect(message).toContain('an abort listener, added at');
    for (const timer of timers) clearTimeout(timer);
  });

  it('ends a leak check', () => {
    expect(leakCheck()).toLeaveNothing();
    const leaks = leakCheck();
    const open = leaks.watch('never', NEVER).subscribe();
    expect(
      messageOf(() => {
        expect(leaks).toLeaveNothing();
      }),
    ).toBe('left behind:\n  - a subscription to never');
    open.unsubscribe();
  });
});

function leavesTimer<T>(source: Observable<T>): Observable<T> {
  return new Observable((to) => {
    asyncScheduler.schedule(() => undefined, 50_000);
    return source.subscribe(to);
  });
}
