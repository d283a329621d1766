import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inputOrder, orderPerKey } from '../../operators/index.js';
import { countAlive } from './garbage.js';

/** What `bulkheadMap` asks of an order. */
interface OrderedValues {
  readonly held: number;
  enter(index: number, line: unknown): void;
  started(index: number): void;
  isHeadStarted(index: number): boolean;
  push(index: number, value: string): void;
  close(index: number): void;
  clear(): void;
}

function orderedValues(out: (value: string) => void, order: object = inputOrder()): OrderedValues {
  return (order as { values(to: typeof out): OrderedValues }).values(out);
}

/** An item of a line, and what it has said. */
interface Speaker {
  readonly line: number;
  readonly said: string[];
  isStarted: boolean;
  isOver: boolean;
}

const steps = fc.array(
  fc.record({ do: fc.constantFrom('enter', 'start', 'say', 'say', 'close'), line: fc.nat({ max: 2 }), which: fc.nat({ max: 5 }) }),
  { maxLength: 80, size: 'max' },
);

describe('OrderedValues', () => {
  it('hands out of each line what was said by the first that is not over, and by those before it', () => {
    fc.assert(
      fc.property(steps, (script) => {
        const out: string[] = [];
        const [actual, expected]: [unknown[], unknown[]] = [[], []];
        const ordered = orderedValues((value) => out.push(value));
        const all: Speaker[] = [];
        script.forEach((step, at) => {
          const open = [...all.keys()].filter((index) => !(all[index] as Speaker).isOver);
          const index = open[step.which % open.length];
          if (step.do === 'enter') {
            ordered.enter(all.length, step.line);
            all.push({ line: step.line, said: [], isStarted: false, isOver: false });
          } else if (index !== undefined) {
            const speaker = all[index] as Speaker;
            if (step.do === 'say') {
              const value = `${String(speaker.line)}:${String(at)}`;
              speaker.said.push(value);
              ordered.push(index, value);
            } else if (step.do === 'start') {
              speaker.isStarted = true;
              ordered.started(index);
            } else {
              speaker.isOver = true;
              ordered.close(index);
            }
          }
          const heard = [0, 1, 2].map((line) => {
            const its = all.filter((speaker) => speaker.line === line);
            const head = its.findIndex(({ isOver }) => !isOver);
            return { head: its[head], values: (head === -1 ? its : its.slice(0, head + 1)).flatMap(({ said }) => said) };
          });
          const said = all.reduce((sum, each) => sum + each.said.length, 0);
          expected.push([
            ...heard.map(({ values }) => values.join()),
            ...all.map(({ line, isOver }) => isOver || heard[line]?.head?.isStarted),
            said - heard.reduce((sum, { values }) => sum + values.length, 0),
          ]);
          actual.push([
            ...[0, 1, 2].map((line) => out.filter((value) => value.startsWith(`${String(line)}:`)).join()),
            ...all.map(({ isOver }, i) => isOver || ordered.isHeadStarted(i)),
            ordered.held,
          ]);
        });
        expect(actual).toEqual(expected);
      }),
      { numRuns: 150 },
    );
  });

  it('forgets everything, and goes on with others', () => {
    const out: string[] = [];
    const ordered = orderedValues(
      (value) => out.push(value),
      orderPerKey((item) => item),
    );
    ordered.enter(0, 'a');
    ordered.enter(1, 'a');
    ordered.push(1, 'held');
    expect(ordered.held).toBe(1);
    ordered.clear();
    ordered.enter(2, 'a');
    ordered.push(2, 'at once');
    ordered.close(2);
    expect([ordered.held, out]).toEqual([0, ['at once']]);
  });

  it.each([
    ['the one that speaks', 0],
    ['the one behind it', 1],
  ])('hands out one value at a time, when hearing one makes %s say more', (_, speaker) => {
    const heard: string[] = [];
    const ordered = orderedValues((value) => {
      if (value === 'one') ordered.push(speaker, 'more');
      heard.push(value);
    });
    ordered.enter(0, 'line');
    ordered.enter(1, 'line');
    ordered.push(1, 'two');
    ordered.push(0, 'one');
    ordered.close(0);
    expect(heard).toEqual(speaker === 0 ? ['one', 'more', 'two'] : ['one', 'two', 'more']);
    expect(ordered.held).toBe(0);
  });

  it('forgets a line when its last item is over', async () => {
    const refs: WeakRef<object>[] = [];
    const ordered = orderedValues(() => undefined);
    const enter = (index: number): void => {
      const line = {};
      refs.push(new WeakRef(line));
      ordered.enter(index, line);
    };
    for (let index = 0; index < 10; index++) enter(index);
    for (let index = 0; index < 9; index++) ordered.close(index);
    expect(await countAlive(refs)).toBe(1);
    ordered.push(9, 'last');
    expect(ordered.held).toBe(0);
  });
});
