import type { Observable } from 'rxjs';
import type {} from 'vitest';
import { endOf } from './layout.js';
import { LeakError, leakCheck } from './leak-check.js';
import { renderText } from './render-text.js';
import { MarbleMismatchError, record, runSpec } from './run.js';
import type { MarbleSpec, Recording } from './spec.js';
import { specOf } from './spec.js';

export type { SpecKit } from './spec.js';

/** What goes into the pipeline: a spec without the pipeline, its name and its verdict. */
type MarbleInputs = Pick<MarbleSpec, 'inputs'> &
  Partial<Pick<MarbleSpec, 'label' | 'synchronous' | 'inners' | 'lanes' | 'values' | 'error' | 'unsub'>>;

/** What goes in and what must come out. */
type MarbleExpectation = MarbleInputs & Pick<MarbleSpec, 'expected' | 'subscriptions'>;

/** What letters stand for, and when the consumer leaves. */
type EmissionOptions = Pick<MarbleSpec, 'values' | 'error' | 'unsub'>;

/** What each matcher answers. */
interface MarbleVerdict {
  readonly pass: boolean;
  readonly message: () => string;
}

/** The part of vitest's own matcher context that is used here. */
interface Context {
  readonly equals: (actual: unknown, expected: unknown) => boolean;
}

type Build = MarbleSpec['build'];

/** The longest a pipeline runs before its consumer leaves, unless `unsub` says otherwise: one that never ends is fine. */
const LEAVES_AT_MS = 1000;

/** Most moments at which leaving is tried. */
const MOST_MOMENTS = 100;

/**
 * Matchers for vitest: `expect.extend(marbleMatchers)`, in a setup file or at the top of a test. Asymmetric matchers
 * (`expect.objectContaining(…)`) may stand in `values`. A failure draws what was expected, what was received and all that really happened.
 *
 * - `expect(build).toMatchMarbles({ inputs, expected, … })` runs a pipeline, given as `build` of a spec, in virtual time. What it
 *   leaves on the scheduler at its end fails too.
 * - `expect(() => stream).toEmit('--a-|', { values })` does the same for a stream without inputs.
 * - `expect(build).toLeaveNothing({ inputs })` lets the consumer leave at every frame at which something happens, and looks for timers,
 *   abort listeners and subscriptions. `expect(leaks).toLeaveNothing()` ends a {@link leakCheck}.
 *
 * @beta
 * @example
 * ```ts vitest
 * import { batch } from 'sluice/operators';
 * import { marbleMatchers, type SpecKit } from 'sluice/marbles/vitest';
 * import { expect, test } from 'vitest';
 *
 * expect.extend(marbleMatchers);
 *
 * test('batches by two', () => {
 *   expect(({ input }: SpecKit) => input('source').pipe(batch({ maxSize: 2 }))).toMatchMarbles({
 *     inputs: { source: '-a-b-c|' },
 *     expected: '       ---x--(y|)',
 *     values: { x: ['a', 'b'], y: ['c'] },
 *   });
 * });
 * ```
 */
export const marbleMatchers = {
  toMatchMarbles(this: Context, build: Build, expectation: MarbleExpectation): MarbleVerdict {
    return matches(specOf({ ...expectation, build: checkedBuild('toMatchMarbles', build) }), this);
  },

  toEmit(this: Context, stream: Build | Observable<unknown>, expected: string, options: EmissionOptions = {}): MarbleVerdict {
    const build: Build = typeof stream === 'function' ? stream : () => stream;
    return matches({ ...specOf({ ...options, inputs: {}, label: 'stream', build }), expected }, this);
  },

  toLeaveNothing(this: unknown, subject: Build | { verify(): void }, inputs: MarbleInputs = { inputs: {} }): MarbleVerdict {
    if (typeof subject === 'object' && 'verify' in subject) return verified(subject);
    const spec = specOf({ ...inputs, build: checkedBuild('toLeaveNothing', subject) });
    for (const unsub of inputs.unsub === undefined ? momentsOf(spec) : [inputs.unsub]) {
      const leaving = { ...spec, unsub };
      const { left, recording } = leftBy(leaving);
      if (left.length > 0) return verdict(false, `${new LeakError(left).message}\n\n${whatHappened(leaving, recording)}`);
    }
    return verdict(true, 'expected something to be left behind when the consumer leaves, but nothing was');
  },
};

/**
 * What `expect(…)` can do with these matchers.
 * @beta
 */
export interface MarbleMatchers {
  /** The pipeline does with these inputs what the marbles say; see {@link marbleMatchers}. */
  toMatchMarbles(expectation: MarbleExpectation): void;
  /** The stream emits what the marbles say; see {@link marbleMatchers}. */
  toEmit(expected: string, options?: EmissionOptions): void;
  /** Whenever its consumer leaves, the pipeline leaves nothing behind; see {@link marbleMatchers}. */
  toLeaveNothing(inputs?: MarbleInputs): void;
}

declare module 'vitest' {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any, @typescript-eslint/no-empty-object-type, @typescript-eslint/no-unused-vars -- as vitest declares it
  interface Matchers<T = any> extends MarbleMatchers {}
}

function matches(spec: MarbleSpec, { equals }: Context): MarbleVerdict {
  try {
    const recording = runSpec(spec, (actual, expected) => equals(actual, expected));
    return verdict(true, `expected something else than ${spec.expected}\n\n${whatHappened(spec, recording)}`);
  } catch (error) {
    if (!(error instanceof MarbleMismatchError)) throw error;
    return verdict(false, `${error.problem}\n\n${whatHappened(spec, error.recording)}`);
  }
}

function verified(leaks: { verify(): void }): MarbleVerdict {
  try {
    leaks.verify();
    return verdict(true, 'expected something to be left behind, but nothing was');
  } catch (error) {
    if (!(error instanceof LeakError)) throw error;
    return verdict(false, error.message);
  }
}

/** Every frame at which something happens, as a time to leave. */
function momentsOf(spec: MarbleSpec): string[] {
  const { inputs, inners, result } = record({ ...spec, unsub: leavesAt(LEAVES_AT_MS) });
  const runs = [...inputs, ...inners, result];
  const frames = runs.flatMap(({ from, marks }) => [from, ...marks.map(({ frame }) => frame)]);
  const distinct = [...new Set(frames)].sort((a, b) => a - b).slice(0, MOST_MOMENTS - 1);
  return [...distinct, LEAVES_AT_MS].map(leavesAt);
}

function leavesAt(frame: number): string {
  return frame === 0 ? '(^!)' : `^ ${String(frame - 1)}ms !`;
}

function leftBy(spec: MarbleSpec): { readonly left: readonly string[]; readonly recording: Recording } {
  using leaks = leakCheck();
  const recording = record(spec);
  const { inputs, inners, result, leftBehind } = recording;
  const open = [...inputs, ...inners].filter((run) => endOf(run) > endOf(result));
  const left = [
    ...leaks.left(),
    ...(leftBehind > 0 ? [`${String(leftBehind)} scheduler action(s)`] : []),
    ...open.map(({ name }) => `a subscription to ${name}`),
  ];
  return { left, recording };
}

function whatHappened(spec: MarbleSpec, recording: Recording): string {
  return `What happened:\n${renderText(spec, recording)}`;
}

function verdict(pass: boolean, message: string): MarbleVerdict {
  return { pass, message: () => message };
}

function checkedBuild(matcher: string, build: unknown): Build {
  if (typeof build === 'function') return build as Build;
  throw new TypeError(
    `${matcher}: expect(…) wants the \`build\` of a spec: a function from { input, inner, watch, scheduler } to an Observable`,
  );
}
