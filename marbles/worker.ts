import { asyncScheduler, Observable } from 'rxjs';
import { onAbort } from '../operators/support/abort.js';
import { parseMarbles } from './parse.js';

export interface WorkerOptions<I, R> {
  /**
   * How each call goes: `--(r|)` answers after 2 ms, `----#` fails after 4 ms, `-` never answers. Any letter emits the answer, so `-r-r|` streams.
   * A list is a schedule, one entry per call; its last entry repeats.
   */
  readonly marbles: string | readonly string[];
  /** Makes the answer; told the input and the number of the call, from 0. */
  readonly answer: (input: I, call: number) => R;
  /** True for an input the worker always fails on, at the time it would have answered. @defaultValue none */
  readonly poison?: (input: I) => boolean;
  /** What a failed call errors with. @defaultValue an `Error` that says so */
  readonly error?: (input: I, call: number) => unknown;
}

/** One call as the worker saw it, in ms of virtual time. */
export interface WorkerCall<I> {
  readonly input: I;
  readonly startedAt: number;
  /** Infinity while it runs. */
  readonly endedAt: number;
  readonly outcome: 'running' | 'ok' | 'failed' | 'cancelled';
  /** How often the call's signal said abort. */
  readonly aborts: number;
}

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
 */
export function createWorker<I, R>({ marbles, answer, poison = never, error = failure }: WorkerOptions<I, R>): Worker<I, R> {
  const schedule = [marbles].flat();
  const calls: { -readonly [K in keyof WorkerCall<I>]: WorkerCall<I>[K] }[] = [];
  let running = 0;
  let peak = 0;

  const work: Worker<I, R>['work'] = (input, context) =>
    new Observable((subscriber) => {
      const number = calls.length;
      const call: (typeof calls)[number] = { input, startedAt: asyncScheduler.now(), endedAt: Infinity, outcome: 'running', aborts: 0 };
      calls.push(call);
      peak = Math.max(peak, ++running);

      const end = (outcome: WorkerCall<I>['outcome']): void => {
        if (call.outcome !== 'running') return;
        call.outcome = outcome;
        call.endedAt = asyncScheduler.now();
        running -= 1;
      };
      const fail = (): void => {
        end('failed');
        subscriber.error(error(input, number));
      };
      subscriber.add(onAbort(context?.signal, () => (call.aborts += 1)));
      subscriber.add(() => {
        end('cancelled');
      });
      for (const mark of parseMarbles(schedule[Math.min(number, schedule.length - 1)] ?? '')) {
        subscriber.add(
          asyncScheduler.schedule(() => {
            if (mark.kind === 'error' || poison(input)) fail();
            else if (mark.kind === 'next') subscriber.next(answer(input, number));
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
    calls,
    running: () => running,
    get peak() {
      return peak;
    },
  };
}

function never(): boolean {
  return false;
}

function failure(_input: unknown, call: number): Error {
  return new Error(`the worker failed call ${String(call)}`);
}
