import type { Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { connect } from '../../../operators/build.js';
import { lostRun, ours } from './streams.js';
import type { AguiInput, AguiNext, AguiStream, EventOf } from './types.js';

/**
 * An agent, by shape: what `run$` uses of it.
 * @beta
 */
export interface AguiAgent<I, O> extends AguiNext<I, O> {
  /** The one its requests are sent with, when it has one. */
  abortController?: AbortController;
  abortRun?(): void;
}

export interface RunOptions {
  /** Ends the run when it aborts, at the server as well: the last event is `RUN_ERROR` with the code `'abort'`. @defaultValue none */
  readonly signal?: AbortSignal;
}

/**
 * The run of an agent as a cold Observable. `agent.run` starts its request when it is called and goes on when nobody listens any more; here each
 * subscription is a run of its own, and leaving it stops the server.
 *
 * - **Emits when** the agent does: its events as they come, without its middlewares and without changing its messages.
 * - **Holds at most** nothing.
 * - **Completes when** the agent does, and when `signal` aborts, after a `RUN_ERROR` with the code `'abort'`.
 * - **Errors when** the agent does, or its `run` throws, with the same error.
 * - **On unsubscribe** the request is aborted. An agent without an `abortController` is told by its `abortRun`, so it should have one run at a time.
 *
 * @beta
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { run$ } from 'sluice/ag-ui';
 *
 * const agent = { run: ({ runId }: { threadId: string; runId: string }) => of({ type: 'RUN_STARTED', runId }, { type: 'RUN_FINISHED', runId }) };
 * const seen: string[] = [];
 * run$(agent, { threadId: 't', runId: 'r' }).subscribe(({ type }) => seen.push(type));
 * seen; // => ['RUN_STARTED', 'RUN_FINISHED']
 * ```
 */
export function run$<I extends AguiInput, O extends AguiStream>(
  agent: AguiAgent<I, O>,
  input: I,
  { signal }: RunOptions = {},
): Observable<EventOf<O>> {
  return new Observable((to) => {
    const own = 'abortController' in agent ? new AbortController() : undefined;
    let isOver = false;
    const stop = (): void => {
      if (isOver) return;
      isOver = true;
      // Without a controller neither has one.
      if (agent.abortController === own) agent.abortRun?.();
      own?.abort();
    };
    to.add(stop);
    const cancel = (): void => {
      stop();
      to.next({ type: 'RUN_ERROR', message: 'The run was cancelled', code: 'abort' } as unknown as EventOf<O>);
      to.complete();
    };
    signal?.addEventListener('abort', cancel);
    to.add(() => signal?.removeEventListener('abort', cancel));
    if (signal?.aborted) cancel();
    if (to.closed) return;
    // Read when the request is made, and that is in `run`; another run of this agent has its own.
    if (own) agent.abortController = own;
    connect(ours(agent.run(input)), to as Subscriber<unknown>, {
      next: (event) => {
        // What it says to being stopped is not its answer.
        if (!isOver) to.next((lostRun(event['rawEvent']) ?? event) as EventOf<O>);
      },
      error: (error) => {
        isOver = true;
        const end = lostRun(error);
        if (end) {
          to.next(end as EventOf<O>);
          to.complete();
        }
        to.error(error);
      },
      complete: () => {
        isOver = true;
        to.complete();
      },
    });
  });
}
