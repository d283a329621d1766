import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { handlesOf, liveDrawing, moveMarble } from '../../docs/.vitepress/theme/live-drawing.js';
import { draw } from '../../marbles/draw.js';
import { parseMarbles } from '../../marbles/parse.js';
import { recordWith, runSpec } from '../../marbles/run.js';
import type { MarbleSpec, Mark } from '../../marbles/spec.js';
import { marbleFiles } from '../support/marble-files.js';

const unchanged = { inputs: {}, options: {} };
const covers = (await marbleFiles()).flatMap(({ specs }) => specs.filter(({ cover }) => cover));
const all = (await marbleFiles()).flatMap(({ specs }) => specs);

/** Some moves of marbles, one after the other: which of them, and by how much. */
const moves = fc.array(fc.record({ pick: fc.nat(30), byMs: fc.integer({ min: -8, max: 12 }) }), { maxLength: 5 });

/** The fault of RxJS's virtual clock that `docs/guides/testing-with-marbles.md` tells of: the page keeps the last drawing. */
function unlessClockFails<R>(run: () => R): R | undefined {
  try {
    return run();
  } catch (error) {
    if (String(error).includes('Expected a due immediate or interval')) return undefined;
    throw error;
  }
}

function moved(spec: MarbleSpec, steps: readonly { pick: number; byMs: number }[]): Record<string, string> {
  const inputs: Record<string, string> = {};
  for (const { pick, byMs } of steps) {
    const handles = handlesOf(liveDrawing(spec, { inputs, options: {} })).flat();
    const handle = handles[pick % Math.max(1, handles.length)];
    if (handle) inputs[handle.input] = moveMarble(inputs[handle.input] ?? spec.inputs[handle.input] ?? '', handle.index, byMs);
  }
  return inputs;
}

describe('a live drawing', () => {
  it.each(covers)('of $operator is the drawing of the page until a reader changes it', (spec) => {
    expect(liveDrawing(spec, unchanged).text).toBe(draw(spec));
  });

  it.each(covers)('of $operator shows what runSpec accepts, whatever marbles are moved', (spec) => {
    fc.assert(
      fc.property(moves, (steps) => {
        const live = unlessClockFails(() => liveDrawing(spec, { inputs: moved(spec, steps), options: {} }));
        if (live === undefined) return;
        const likeTheFirst = Object.values(spec.inners ?? {})[0] ?? '---(r|)';
        const again = recordWith(live.spec, () => likeTheFirst);
        expect(live.recording.result.marks).toEqual(again.result.marks);
        const named = namesOfCalls(
          live.spec,
          live.recording.inners.map(({ name }) => name),
          likeTheFirst,
        );
        const { expected, values, error } = expectationOf(live.recording.result.marks);
        // Marbles cannot say everything: `#` stands for one error, and a group takes up time.
        if ((error !== undefined && error !== spec.error) || !isSayable(expected)) return;
        const { subscriptions: _, ...rest } = { ...named, expected, values: { ...spec.values, ...values } };
        runSpec(rest, isDeepStrictEqual);
      }),
      { numRuns: 25 },
    );
  });

  it.each(covers.filter(({ options }) => options))('of $operator turns each option, in the call and in its label', (spec) => {
    for (const [name, value] of Object.entries(spec.options ?? {})) {
      expect(spec.label).toContain(`${name}: ${String(value)}`);
      const live = liveDrawing(spec, { inputs: {}, options: { [name]: value + 1 } });
      expect(live.spec.label).toContain(`${name}: ${String(value + 1)}`);
      expect(live.text).not.toBe(draw(spec));
      expect(live.svg).toContain(`${name}: ${String(value + 1)}`);
    }
  });

  it('keeps its style to itself', () => {
    const [spec] = covers;
    if (spec) expect(liveDrawing(spec, unchanged).svg).toMatch(/<style>\.live-drawing\{.+\}<\/style>/s);
  });
});

describe('moveMarble', () => {
  it('moves one marble and keeps the others and their order of letters', () => {
    expect(moveMarble('-a-b-c--|', 1, 2)).toBe('-a---(bc)|'.replace('(bc)|', '(cb)|'));
    expect(moveMarble('-a-b-c--|', 0, -1)).toBe('a--b-c--|');
    expect(moveMarble('-a-b-c--|', 2, 9)).toBe('-a-b----------(c|)');
    expect(moveMarble('-a-b', 7, 1)).toBe('-a-b');
  });

  it('loses and doubles no marble of any example, and moves to the time that it says', () => {
    const cold = all.flatMap((spec) => Object.values(spec.inputs).filter((marbles) => !marbles.includes('^')));
    fc.assert(
      fc.property(fc.constantFrom(...cold), fc.nat(20), fc.integer({ min: -30, max: 60 }), (marbles, index, byMs) => {
        const before = parseMarbles(marbles);
        const after = parseMarbles(moveMarble(marbles, index, byMs));
        expect(after.map(letterOf).sort()).toEqual(before.map(letterOf).sort());
        expect(after.map(({ frame }) => frame)).toEqual(after.map(({ frame }) => frame).sort((a, b) => a - b));
      }),
      { numRuns: 2000 },
    );
  });
});

function letterOf(mark: Mark): string {
  return mark.kind === 'next' ? String(mark.value) : mark.kind;
}

const UNSAYABLE = '?';

function isSayable(marbles: string): boolean {
  return !marbles.includes(UNSAYABLE);
}

/** With the calls that were made under the names that they got. */
function namesOfCalls(spec: MarbleSpec, names: readonly string[], marbles: string): MarbleSpec {
  return { ...spec, inners: { ...Object.fromEntries(names.map((name) => [name, marbles])), ...spec.inners } };
}

/** What came, as the marbles and values of a spec. */
function expectationOf(marks: readonly Mark[]): Pick<MarbleSpec, 'expected'> & { values: Record<string, unknown>; error: unknown } {
  const values: Record<string, unknown> = {};
  const groups = new Map<number, string>();
  let error: unknown;
  marks.forEach((mark, index) => {
    const letter = mark.kind === 'next' ? String.fromCodePoint(0x4e00 + index) : mark.kind === 'error' ? '#' : '|';
    if (mark.kind === 'next') values[letter] = mark.value;
    if (mark.kind === 'error') error = mark.error;
    groups.set(mark.frame, (groups.get(mark.frame) ?? '') + letter);
  });
  let expected = '';
  let now = 0;
  for (const [frame, letters] of groups) {
    if (frame < now) expected += UNSAYABLE;
    if (frame > now) expected += ` ${String(frame - now)}ms `;
    expected += letters.length > 1 ? `(${letters})` : letters;
    now = Math.max(frame, now) + (letters.length > 1 ? letters.length + 2 : 1);
  }
  return { expected, values, error };
}
