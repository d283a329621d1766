import { asyncScheduler, Observable } from 'rxjs';
import { FlowConfigError } from '../operators/options/errors.js';
import { onlyKnown } from '../operators/options/options.js';
import type { WorkerCall } from './call-log.js';
import { CallLog } from './call-log.js';
import { parseMarbles } from './parse.js';

/** @beta */
export interface WorkerOptions<I, R> {
  /**
   * How each call goes: `--(r|)` answers after 2 ms, `----#` fails after 4 ms, `-` never answers. Any letter emits the answer, so `-r-r|` streams.
   * A list is a schedule, one entry per call; its last entry repeats. A function chooses by the input and the number of the call, from 0.
   */
  readonly marbles: string | readonly string[] | ((input: I, call: number) => string);
  /** Makes the answer; told the input, the number of the call, from 0, and the letter it stands for. */
  readonly answer: (input: I, call: number, letter: string) => R;
  /** True for an input the worker always fails on, at the time it would have answered. @defaultValue none */
  readonly poison?: (input: I) => boolean;
  /** What a failed call errors with. @defaultValue an `Error` that says so */
  readonly error?: (input: I, call: number) => unknown;
}

/** @beta */
export interface Worker<I, R> {
  /** The work function: pass it to an operator. */
  readonly work: (input: I, context?: { readonly signal: AbortSignal }) => Observable<R>;
  /** Every call so far, in the order they started. */
  readonly calls: readonly WorkerCall<I>[];
  /** Calls running now. */
  readonly running: () => number;
  /** Most calls that ever ran at once. */
  readonly peak: number;
}

/**
 * A stand-in for a model or a tool that answers in virtual time, so that a whole pipeline can be tested without waiting.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when `marbles` is an empty list.
 * @example
 * ```ts
 * import { createWorker, virtualTime } from 'sluice/marbles';
 *
 * const seen = virtualTime(({ flush, now }) => {
 *   const lines: string[] = [];
 *   const worker = createWorker({ marbles: '-----(r|)', answer: (words: string[]) => words.map((word) => word.length) });
 *   worker.work(['to', 'them']).subscribe((lengths) => lines.push(`${now()} ms: ${lengths.join()}`));
 *   flush();
 *   return lines;
 * });
 * seen; // => ['5 ms: 2,4']
 * ```
 * @see {@link fakeProvider} for one that has rate limits, refuses items and breaks by chance.
 */
export function createWorker<I, R>(options: WorkerOptions<I, R>): Worker<I, R> {
  onlyKnown('createWorker', options, ['marbles', 'answer', 'poison', 'error']);
  const { marbles, answer, poison = never, error = failure } = options;
  const marblesOf = typeof marbles === 'function' ? marbles : scheduleOf([marbles].flat());
  const log = new CallLog<I>(() => asyncScheduler.now());

  const work: Worker<I, R>['work'] = (input, context) =>
    new Observable((subscriber) => {
      const number = log.calls.length;
      const end = log.open(subscriber, context?.signal, (opened) => opened, input);
      const fail = (): void => {
        end('failed');
        subscriber.error(error(input, number));
      };
      for (const mark of parseMarbles(marblesOf(input, number))) {
        subscriber.add(
          asyncScheduler.schedule(() => {
            if (mark.kind === 'error' || poison(input)) fail();
            else if (mark.kind === 'next') subscriber.next(answer(input, number, String(mark.value)));
            else {
              end('ok');
              subscriber.complete();
            }
          }, mark.frame),
        );
      }
    });

  return {
    work,
    calls: log.calls,
    running: () => log.running,
    get peak() {
      return log.peak;
    },
  };
}

function scheduleOf(entries: readonly string[]): (input: unknown, call: number) => string {
  const last = entries.at(-1);
  if (last === undefined) throw new FlowConfigError('createWorker', 'marbles', 'a marble text, or a list of at least one', entries);
  return (_input, call) => entries[call] ?? last;
}

function never(): boolean {
  return false;
}

function failure(_input: unknown, call: number): Error {
  return new Error(`the worker failed call ${String(call)}`);
}
