import type { Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';
import { connect } from '../operators/shell/streams/connect.js';
import { endOf, textOf } from './layout.js';
import { letterValues, parseMarbles, parseSubscription } from './parse.js';
import { watchPromises } from './promise-watch.js';
import { renderRuns } from './render-text.js';
import type { MarblePicture, MarbleSpec, MarbleTest, Mark, Recording, Run } from './spec.js';
import { specOf } from './spec.js';

/**
 * Compares by value; a mismatch is a throw or `false`, anything else a match. For example `(a, b) => expect(a).toEqual(b)`.
 * @stable
 */
export type AssertEqual = (actual: unknown, expected: unknown) => unknown;

/** The run of a spec was not what the spec expects; the message draws both. */
export class MarbleMismatchError extends Error {
  override readonly name = 'MarbleMismatchError';
  constructor(
    spec: MarbleSpec,
    /** What differs, drawn where it can be. */
    readonly problem: string,
    readonly recording: Recording,
    cause?: unknown,
  ) {
    super(`${spec.operator}: ${spec.title}\n${problem}`, { cause });
  }
}

/**
 * Runs a spec in virtual time, compares what happened with what it expects, and returns what happened. It needs no test runner, only
 * one's way to compare.
 *
 * @stable
 * @param assertEqual - For example `assert.deepStrictEqual`, `isDeepStrictEqual` or `(a, b) => expect(a).toEqual(b)`.
 * @throws MarbleMismatchError when the result or a subscription differs, or the operator left a timer behind; it draws both.
 * @throws Error when the pipeline waits for a promise, as of work that is an `async` function: it would settle after the run.
 * @example
 * ```ts
 * import { deepStrictEqual } from 'node:assert';
 * import { batch } from 'sluice/operators';
 * import { runSpec, type SpecKit } from 'sluice/marbles';
 *
 * const recording = runSpec(
 *   {
 *     inputs: { source: '-a-b-c---|' },
 *     subscriptions: { source: '^--------!' },
 *     expected: '       ---x-----(y|)',
 *     values: { x: ['a', 'b'], y: ['c'] },
 *     build: ({ input }: SpecKit) => input('source').pipe(batch({ maxSize: 2 })),
 *   },
 *   deepStrictEqual,
 * );
 * recording.result.marks.map(({ frame, kind }) => `${kind} at ${frame} ms`); // => ['next at 3 ms', 'next at 9 ms', 'complete at 9 ms']
 * ```
 */
export function runSpec(test: MarbleTest, assertEqual: AssertEqual): Recording {
  const spec = specOf(test);
  const recording = record(spec);
  const { values, error } = spec;
  const expected: Run = { name: 'expected', from: 0, leftAt: Infinity, marks: parseMarbles(spec.expected, values, error) };
  const { marks } = recording.result;
  compare(marks, expected.marks, () => {
    const drawing = renderRuns([expected, { ...recording.result, name: 'received', from: 0 }], values);
    return [drawing, ...firstDifference(expected.marks, marks, isSame)].join('\n');
  });
  for (const [name, marbles] of Object.entries(spec.subscriptions ?? {})) {
    const wanted = [marbles].flat().map(parseSubscription);
    const seen = [...recording.inputs, ...recording.inners].filter((run) => run.name === name).map(spanOf);
    compare(seen, wanted, () => `subscriptions to ${name}: expected ${spansText(wanted)}; received ${spansText(seen)}`);
  }
  if (recording.leftBehind > 0) {
    throw new MarbleMismatchError(spec, `${String(recording.leftBehind)} scheduler action(s) left behind after the end`, recording);
  }
  return recording;

  function isSame(actual: unknown, wanted: unknown): boolean {
    try {
      return assertEqual(actual, wanted) !== false;
    } catch {
      return false;
    }
  }

  function compare(actual: unknown, wanted: unknown, describe: () => string): void {
    let cause: unknown;
    try {
      if (assertEqual(actual, wanted) !== false) return;
    } catch (thrown) {
      cause = thrown;
    }
    throw new MarbleMismatchError(spec, describe(), recording, cause);
  }
}

/** The first mark that is not as expected, with its time: drawings stretch time where a group needs more columns. */
function firstDifference(wanted: readonly Mark[], actual: readonly Mark[], isSame: AssertEqual): string[] {
  for (let i = 0; i < Math.max(wanted.length, actual.length); i++) {
    if (isSame(actual[i], wanted[i]) !== true)
      return [`first difference: expected ${markText(wanted[i])}, received ${markText(actual[i])}`];
  }
  return [];
}

function markText(mark: Mark | undefined): string {
  if (mark === undefined) return 'nothing more';
  const what = mark.kind === 'next' ? textOf(mark.value) : mark.kind === 'error' ? `the error ${textOf(mark.error)}` : 'the end';
  return `${what} at ${mark.frame} ms`;
}

/**
 * Runs a spec and writes down what happens, without judging it.
 *
 * @stable
 * @throws Error when the pipeline waits for a promise: it would settle after the run, and what comes of it is not written down.
 * @example
 * ```ts
 * import { delay } from 'rxjs';
 * import { record } from 'sluice/marbles';
 *
 * const { inputs, result } = record({ inputs: { source: '-a|' }, build: ({ input }) => input('source').pipe(delay(5)) });
 * inputs.map(({ name, from }) => `${name} from ${from} ms`); // => ['source from 0 ms']
 * result.marks[0]; // => { frame: 6, kind: 'next', value: 'a' }
 * ```
 */
export function record(picture: MarblePicture): Recording {
  return recordWith(picture);
}

/** As `record`, with marbles for inner streams that the picture does not name: a picture whose inputs have changed makes other calls. */
export function recordWith(picture: MarblePicture, otherInner?: (name: string) => string): Recording {
  const spec = specOf(picture);
  const { values, error } = spec;
  const inputs: OpenRun[] = [];
  const inners: OpenRun[] = [];
  const results: OpenRun[] = [];
  let leftBehind = 0;

  const scheduler = new TestScheduler(() => true);
  const awaited = (place: string): void => {
    const problem = promiseProblem(spec, scheduler.frame, place);
    // Ends the run at the end of this frame: timers that wait for the promise would go on for ever.
    scheduler.schedule(() => {
      throw problem;
    });
  };
  const playSpec = (run: Parameters<typeof scheduler.run>[0]): void => {
    watchPromises(awaited, () => {
      scheduler.run(run);
    });
  };
  playSpec(({ cold, hot }) => {
    const stream = (marbles: string, synchronous: boolean): Observable<unknown> => {
      if (synchronous) return startsAtOnce(parseMarbles(marbles, values, error), scheduler);
      return (marbles.includes('^') ? hot : cold)(marbles, letterValues(marbles, values), error);
    };
    const noWait = (): undefined => undefined;
    const wait = (name: string): number | undefined => waitingSince(name, { inputs, inners, values, frame: scheduler.frame });
    const watch = <T>(name: string, source: Observable<T>): Observable<T> => recorded(name, source, inners, scheduler, wait);
    const streams = (
      kind: string,
      marblesByName: Readonly<Record<string, string>>,
      draw: typeof watch,
      other?: (name: string) => string,
    ) => {
      const made = new Map(
        Object.entries(marblesByName).map(([name, marbles]) => [
          name,
          draw(name, stream(marbles, spec.synchronous?.includes(name) ?? false)),
        ]),
      );
      return <T>(name: string): Observable<T> => {
        const found = made.get(name);
        if (found === undefined && other) return draw(name, stream(other(name), false)) as Observable<T>;
        if (found === undefined) {
          const names = [...made.keys()].map((each) => `'${each}'`).join(', ') || 'none';
          throw new Error(`no ${kind} is named '${name}'; the spec has ${names}`);
        }
        return found as Observable<T>;
      };
    };
    const kit = {
      input: streams('input', spec.inputs, (name, source) => recorded(name, source, inputs, scheduler, noWait)),
      inner: streams('inner stream', spec.inners ?? {}, watch, otherInner),
      watch,
      options: spec.options ?? {},
      scheduler,
    };
    const result = recorded('result', spec.build(kit), results, scheduler, noWait);
    const consumer = parseSubscription(spec.unsub ?? '^');
    let leave = ignore;

    scheduler.schedule(() => {
      // By now only hot inputs and the consumer's leaving are scheduled; whatever is added later belongs to the operator.
      const before = new Set<unknown>(scheduler.actions);
      const countLeft = (): void => {
        leftBehind = scheduler.actions.filter((action) => !before.has(action)).length;
      };
      const subscription = result.subscribe({ error: ignore });
      leave = () => {
        if (subscription.closed) return;
        subscription.unsubscribe();
        countLeft();
      };
      // At the end of the frame in which the result ends by itself.
      subscription.add(() => scheduler.schedule(countLeft));
    }, consumer.from);
    if (consumer.to !== Infinity) {
      scheduler.schedule(() => {
        leave();
      }, consumer.to);
    }
  });

  const [result] = results;
  if (result === undefined) throw new Error(`${spec.operator}: ${spec.title}: the consumer never subscribes`);
  return { inputs, inners, result, leftBehind };
}

function promiseProblem(spec: MarbleSpec, frame: number, place: string): Error {
  const where = `at ${String(frame)} ms of virtual time${place && ` (${place})`}`;
  return new Error(
    `${spec.operator}: ${spec.title}\nthe pipeline waits for a promise ${where}. Promises settle outside virtual time, so this run cannot show ` +
      'what comes of it. Let the work answer an Observable, for example `timer(5).pipe(map(() => result))`, an inner stream of the spec or a ' +
      'call of `fakeProvider`; or test this work without marbles, with `await`.',
  );
}

type OpenRun = Run & { leftAt: number; readonly marks: Mark[] };

/** The same stream, with every subscription to it written down. */
function recorded<T>(
  name: string,
  source: Observable<T>,
  runs: OpenRun[],
  scheduler: TestScheduler,
  waitingSince: (name: string) => number | undefined,
): Observable<T> {
  return new Observable((subscriber) => {
    const waitingFrom = waitingSince(name);
    const run: OpenRun = { name, from: scheduler.frame, leftAt: Infinity, marks: [], ...(waitingFrom !== undefined && { waitingFrom }) };
    runs.push(run);
    subscriber.add(() => {
      if (endOf(run) === Infinity) run.leftAt = scheduler.frame;
    });
    const pass = (mark: Mark): void => {
      run.marks.push(mark);
      play(mark, subscriber);
    };
    connect(source, subscriber, {
      next: (value) => {
        pass({ frame: scheduler.frame, kind: 'next', value });
      },
      error: (error) => {
        pass({ frame: scheduler.frame, kind: 'error', error });
      },
      complete: () => {
        pass({ frame: scheduler.frame, kind: 'complete' });
      },
    });
  });
}

/** A cold stream that emits its first frame while it is being subscribed to. */
function startsAtOnce(marks: readonly Mark[], scheduler: TestScheduler): Observable<unknown> {
  return new Observable((subscriber) => {
    for (const mark of marks) {
      if (subscriber.closed) return;
      if (mark.frame === 0) play(mark, subscriber);
      else
        subscriber.add(
          scheduler.schedule(() => {
            play(mark, subscriber);
          }, mark.frame),
        );
    }
  });
}

function play(mark: Mark, subscriber: Subscriber<unknown>): void {
  if (mark.kind === 'next') subscriber.next(mark.value);
  else if (mark.kind === 'error') subscriber.error(mark.error);
  else subscriber.complete();
}

/** What is known when an inner stream is subscribed to. */
interface Sofar {
  readonly inputs: readonly Run[];
  readonly inners: readonly Run[];
  readonly values: Readonly<Record<string, unknown>> | undefined;
  readonly frame: number;
}

/**
 * Since when the items an inner stream is named after have waited for it: since they came, or since the call before it ended when this is
 * another try. Undefined when the name is not made of items that came in.
 */
function waitingSince(name: string, { inputs, inners, values, frame }: Sofar): number | undefined {
  const waits = itemsIn(name).map((letter) => {
    const value = letterValues(letter, values)[letter];
    const arrivals = inputs.flatMap(({ marks }) => marks.filter((mark) => mark.kind === 'next' && mark.value === value));
    const earlier = inners.filter((run) => itemsIn(run.name).includes(letter));
    // An item that comes twice is called twice.
    return (
      arrivals[earlier.length]?.frame ?? (arrivals.length > 0 ? Math.max(...earlier.map(endOf).filter((end) => end <= frame)) : Infinity)
    );
  });
  const since = Math.min(...waits);
  return waits.includes(Infinity) || since === -Infinity || since === frame ? undefined : since;
}

/** `abc 2` is another try for a, b and c. */
function itemsIn(name: string): string[] {
  return Array.from(name.replace(/ \d+$/, ''));
}

function spanOf(run: Run): { from: number; to: number } {
  return { from: run.from, to: endOf(run) };
}

function spansText(spans: readonly { from: number; to: number }[]): string {
  if (spans.length === 0) return 'none';
  return spans.map(({ from, to }) => `${String(from)} ms to ${to === Infinity ? 'the end' : `${String(to)} ms`}`).join(', ');
}

function ignore(): void {
  // The recording has it.
}
