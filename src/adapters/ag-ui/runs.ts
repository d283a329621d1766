import type { SchedulerLike } from 'rxjs';
import { Observable, Subject } from 'rxjs';
import { abortReason, ask, connect, report } from '../../../operators/toolkit.js';
import type { Cost, Lease, Limiter } from '../../../operators/types.js';
import { seeBracket } from './brackets.js';
import type { AguiFlowEvent, AguiOutcome } from './run-events.js';
import { endOf, usageOf } from './run-events.js';
import { said } from './said.js';
import { ours } from './streams.js';
import type { AguiEvent, AguiInput, AguiMiddleware, AguiNext, AguiStream } from './types.js';

/** A run that was given up before its end. */
export interface AbandonedRun {
  readonly threadId: string;
  readonly runId: string;
  /** `'cancelled'`: by `abortRun`, a signal of its own, or the agent. */
  readonly reason: 'superseded' | 'left' | 'cancelled';
  /** What it was started with. */
  readonly input: unknown;
}

export interface RunRules {
  readonly key: (input: AguiInput) => unknown;
  readonly cancelledAs: 'finished' | 'error';
  readonly onSupersede: ((run: AbandonedRun) => unknown) | undefined;
  readonly limiter: Limiter | undefined;
  readonly lane: string | undefined;
  readonly cost: ((input: AguiInput) => Cost) | undefined;
  readonly countTokens: (text: string) => number;
  readonly scheduler: SchedulerLike;
}

/** The runs of one flow: at most one for each key goes on. */
export interface Runs {
  readonly events: Observable<AguiFlowEvent>;
  readonly switchRuns: AguiMiddleware;
  /** The signal of the run that a request belongs to: the one that is being started, else the one that its body names. */
  readonly signalOf: (init: RequestInit) => AbortSignal | undefined;
}

const NAME = 'aguiFlow';

export function createRuns(rules: RunRules): Runs {
  const { key, cancelledAs, onSupersede, limiter, lane, cost, countTokens, scheduler } = rules;
  const told = new Subject<AguiFlowEvent>();
  /** What gives up the run of a key. */
  const current = new Map<unknown, (reason: 'superseded') => void>();
  const byId = new Map<unknown, AbortSignal>();
  /** Of the run whose agent is being called. */
  let starting: AbortSignal | undefined;

  return {
    events: told.asObservable(),
    signalOf: ({ body }) => starting ?? byId.get(runIdIn(body)),
    switchRuns: <I extends AguiInput, O extends AguiStream>(input: I, next: AguiNext<I, O>): O =>
      new Observable<AguiEvent>((to) => {
        const { threadId, runId } = input;
        const place = ask(NAME, 'key', key, input);
        const controller = new AbortController();
        const { signal } = controller;
        /** What was begun and has not ended. */
        const open = new Map<string, AguiEvent>();
        let lease: Lease | undefined;
        /** Tokens, as they were estimated. */
        let paidFor = 0;
        let hasStarted = false;
        /** Its end was handed on: nothing but another run may follow in its stream. */
        let hasEnded = false;
        /** Nobody listens any more. */
        let isOver = false;
        let chunks = 0;
        let text = '';

        const before = current.get(place);
        // First of all: whoever hears of the old one may start another, which is newer than this.
        current.set(place, giveUp);
        byId.set(runId, signal);
        to.add(() => {
          giveUp('left');
          if (current.get(place) === giveUp) current.delete(place);
          if (byId.get(runId) === signal) byId.delete(runId);
        });
        before?.('superseded');
        if (to.closed) return;
        tell({ type: 'runStarted' });
        if (!limiter) {
          begin();
          return;
        }
        // Begins when the limiter lets it.
        const costs = cost && ask(NAME, 'cost', cost, input);
        paidFor = costs?.tokens ?? 0;
        connect(limiter.acquire(said({ lane, cost: costs })), to, {
          next: (permit) => {
            lease = permit;
            begin();
          },
          error: fail,
          // It goes on with the lease.
          complete: () => undefined,
        });

        function begin(): void {
          const outer = starting;
          starting = signal;
          try {
            connect(ours(next.run(input)), to, { next: take, error: fail, complete });
          } catch (error) {
            fail(error);
          } finally {
            starting = outer;
          }
        }

        function take(event: AguiEvent): void {
          if (isOver) return;
          const { type, delta } = event;
          const how = endOf(event);
          if (type === 'RUN_STARTED') {
            // Another one in the same stream: what the last one left open was ended with it.
            if (hasEnded) tell({ type: 'runStarted' });
            open.clear();
            hasEnded = false;
            hasStarted = true;
          } else if (hasEnded) {
            tell({ type: 'eventDropped', event: type });
            return;
          }
          if (typeof delta === 'string') {
            chunks++;
            text += delta;
          } else {
            seeBracket(open, event);
          }
          if (how) end(how, event);
          to.next(event);
        }

        function fail(error: unknown): void {
          if (isOver) return;
          const isLate = hasEnded;
          stop((Object(error) as { readonly name?: unknown }).name === 'AbortError' ? 'cancelled' : 'failed');
          if (isLate) {
            tell({ type: 'eventDropped', event: 'error' });
            to.complete();
          } else {
            to.error(error);
          }
        }

        /** A stream that ends before its run has been cut off on the way. */
        function complete(): void {
          if (!hasEnded) take({ type: 'RUN_ERROR', message: 'The stream ended before the run did', code: 'incomplete' });
          isOver = true;
          to.complete();
        }

        /** Stops it at the server; its stream ends as the protocol wants it when somebody still listens to it. */
        function giveUp(reason: 'superseded' | 'left'): void {
          if (isOver) return;
          const isEarly = !hasEnded;
          stop(reason);
          if (isEarly) {
            const isError = cancelledAs === 'error';
            if (!hasStarted && !isError) to.next({ type: 'RUN_STARTED', threadId, runId });
            for (const event of [...open.values()].reverse()) to.next(event);
            to.next(
              isError
                ? { type: 'RUN_ERROR', message: 'A newer run took its place', code: 'cancelled' }
                : { type: 'RUN_FINISHED', threadId, runId, outcome: { type: 'cancelled' } },
            );
          }
          to.complete();
        }

        function stop(outcome: AguiOutcome): void {
          isOver = true;
          // First of all, so that whoever takes over finds the server told; what cannot be read is still sent, too.
          controller.abort(abortReason());
          end(outcome);
        }

        function tell(event: OwnFields<AguiFlowEvent>): void {
          told.next({ ...event, at: scheduler.now(), threadId, runId });
        }

        /** What is known by now is told and paid, once for each run. */
        function end(outcome: AguiOutcome, event?: AguiEvent): void {
          if (hasEnded) return;
          hasEnded = true;
          const usage = usageOf(event);
          const code = typeof event?.['code'] === 'string' ? event['code'] : undefined;
          const isGivenUp = outcome === 'superseded' || outcome === 'left' || outcome === 'cancelled';
          let estimatedTokens = 0;
          try {
            if (text !== '') estimatedTokens = ask(NAME, 'countTokens', countTokens, text);
          } catch (error) {
            // One that throws must not keep the permit, or stop whoever leaves.
            report(error);
          }
          if (usage) lease?.settle(usage);
          // What it was to cost stands, unless more has come already.
          else if (estimatedTokens > paidFor) lease?.settle({ outputTokens: estimatedTokens });
          lease?.release(outcome === 'failed' ? 'error' : isGivenUp ? 'cancelled' : 'ok');
          lease = undefined;
          tell({ type: 'runEnded', outcome, chunks, estimatedTokens, ...said({ code, usage }) });
          chunks = 0;
          text = '';
          if (!onSupersede || !isGivenUp) return;
          // Called at once, because the page may be closing; its failure is not that of a run.
          new Promise((resolve) => {
            resolve(onSupersede({ threadId, runId, reason: outcome, input }));
          }).then(undefined, report);
        }
      }) as unknown as O,
  };
}

/** What a run says of itself beside its names and the time. */
type OwnFields<E> = E extends unknown ? Omit<E, 'at' | 'threadId' | 'runId'> : never;

/** The run that the body of a request names. */
function runIdIn(body: unknown): unknown {
  try {
    return (Object(JSON.parse(body as string)) as { readonly runId?: unknown }).runId;
  } catch {
    return undefined;
  }
}
