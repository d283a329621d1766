import type { SchedulerLike } from 'rxjs';
import { defer, mergeMap, Observable, Subject } from 'rxjs';
import { connect } from '../../../operators/build.js';
import type { Lease, Limiter, LimiterJob } from '../../../operators/index.js';
import type { Run } from './agent-fetch.js';
import { agentFetch } from './agent-fetch.js';
import type { OpenPart } from './open-parts.js';
import { openParts } from './open-parts.js';
import type { AguiFlowEvent, AguiOutcome } from './run-events.js';
import { endOf, usageOf } from './run-events.js';
import { lostRun, ours } from './streams.js';
import type { AguiEvent, AguiFetch, AguiInput, AguiMiddleware, AguiNext, AguiStream } from './types.js';

/**
 * A run that was given up before its end.
 * @beta
 */
export interface AbandonedRun {
  readonly threadId: string;
  readonly runId: string;
  /** `'cancelled'`: by `abortRun`, a signal of its own, or the agent. */
  readonly reason: 'superseded' | 'left' | 'cancelled';
  /** What it was started with. */
  readonly input: unknown;
}

export interface RunRules {
  readonly fetch: AguiFetch | undefined;
  readonly key: ((input: AguiInput) => unknown) | undefined;
  readonly cancelledAs: 'finished' | 'error';
  readonly onSupersede: ((run: AbandonedRun) => unknown) | undefined;
  readonly limiter: Limiter | undefined;
  readonly job: ((input: AguiInput) => LimiterJob) | undefined;
  readonly scheduler: SchedulerLike;
}

/** The runs of one flow: at most one for each key goes on. */
export interface Runs {
  readonly events: Observable<AguiFlowEvent>;
  readonly switchRuns: AguiMiddleware;
  /** Sends what `switchRuns` can stop: a request is of the run that its body names. */
  readonly fetch: AguiFetch;
}

export function createRuns({ fetch, key, cancelledAs, onSupersede, limiter, job, scheduler }: RunRules): Runs {
  const told = new Subject<AguiFlowEvent>();
  /** The run of each key, and what gives it up. */
  const current = new Map<unknown, Run & { readonly runId: string }>();

  return {
    events: told.asObservable(),
    fetch: agentFetch(fetch, ({ body }) => {
      // Where it stands is for the agent to say: some put what a run is started with into an envelope.
      const named = /"runId":"([^"]*)"/.exec(body as string)?.[1];
      return [...current.values()].find(({ runId }) => runId === named);
    }),
    switchRuns: <I extends AguiInput, O extends AguiStream>(input: I, next: AguiNext<I, O>): O =>
      new Observable<AguiEvent>((to) => {
        const { threadId, runId } = input;
        const place = key ? key(input) : threadId;
        const wanted = limiter && job?.(input);
        const controller = new AbortController();
        const run = { runId, signal: controller.signal, giveUp };
        const { long: open, see } = openParts();
        let lease: Lease | undefined;
        /** Its end was handed on: nothing but another run may follow in its stream. */
        let hasEnded = false;
        /** Nobody listens any more. */
        let isOver = false;
        let chunks = 0;
        let text = '';

        const before = current.get(place);
        // First of all: whoever hears of the old one may start another, which is newer than this.
        current.set(place, run);
        to.add(() => {
          giveUp('left');
          if (current.get(place) === run) current.delete(place);
        });
        before?.giveUp('superseded');
        if (to.closed) return;
        tell({ type: 'runStarted' });
        const begin = mergeMap((permit: Lease | undefined) => {
          lease = permit;
          return ours(next.run(input));
        });
        connect(defer(() => (limiter ? limiter.acquire(wanted) : [undefined])).pipe(begin), to, { next: take, error: fail, complete });

        function take(told: AguiEvent): void {
          if (isOver) return;
          const event = lostRun(told['rawEvent']) ?? told;
          const { type, delta } = event;
          const how = endOf(event);
          if (type === 'RUN_STARTED') {
            // Another one in the same stream.
            if (hasEnded) tell({ type: 'runStarted' });
            hasEnded = false;
          } else if (hasEnded) {
            tell({ type: 'eventDropped', event: type });
            return;
          }
          if (typeof delta === 'string') {
            chunks++;
            text += delta;
          } else see(event);
          if (how) end(how, event);
          to.next(event);
        }

        function fail(error: unknown): void {
          const end = lostRun(error);
          if (end) take(end);
          stop((error as Partial<Error> | undefined)?.name === 'AbortError' ? 'cancelled' : 'failed', () => {
            to.error(error);
          });
        }

        /** A stream that ends before its run has been cut off on the way. */
        function complete(): void {
          if (!hasEnded) take({ type: 'RUN_ERROR', message: 'The run was cut off', code: 'incomplete' });
          stop('failed');
        }

        /** Stops it at the server; its stream ends as the protocol wants it when somebody still listens to it. */
        function giveUp(reason: AbandonedRun['reason']): void {
          stop(reason, () => {
            const start = { type: 'RUN_STARTED', threadId, runId };
            if (open.size === 0) {
              see(start);
              to.next(start);
            }
            for (const part of [...open.values()].reverse()) to.next(endOfPart(part, cancelledAs));
          });
        }

        /** Once. `sayEnd` is called when the end of the run was not handed on before. */
        function stop(outcome: AguiOutcome, sayEnd?: () => void): void {
          if (isOver) return;
          isOver = true;
          const isEarly = !hasEnded;
          // First of all, so that whoever takes over finds the server told; what cannot be read is still sent, too.
          controller.abort();
          end(outcome);
          if (isEarly) sayEnd?.();
          to.complete();
        }

        function tell(event: OwnFields<AguiFlowEvent>): void {
          told.next({ ...event, at: scheduler.now(), threadId, runId });
        }

        /** What is known by now is told and paid, once for each run. */
        function end(outcome: AguiOutcome, event?: AguiEvent): void {
          if (hasEnded) return;
          hasEnded = true;
          const usage = usageOf(event);
          const isGivenUp = outcome === 'superseded' || outcome === 'left' || outcome === 'cancelled';
          // 4 bytes of UTF-8 a token: near enough for a run that was given up.
          const estimatedTokens = Math.ceil(new Blob([text]).size / 4);
          // What it was to cost stands, unless more has come already.
          lease?.settle(usage ?? (estimatedTokens > (wanted?.cost?.tokens ?? 0) ? { outputTokens: estimatedTokens } : {}));
          lease?.release(outcome === 'failed' ? 'error' : isGivenUp ? 'cancelled' : 'ok');
          tell({ type: 'runEnded', outcome, code: event?.['code'] as string | undefined, chunks, estimatedTokens, usage });
          chunks = 0;
          text = '';
          // Called at once, because the page may be closing; its failure is not that of a run.
          if (onSupersede && isGivenUp)
            // eslint-disable-next-line @typescript-eslint/require-await -- what it throws is a rejection, too
            defer(async () => onSupersede({ threadId, runId, reason: outcome, input })).subscribe();
        }
      }) as unknown as O,
  };
}

/** The event that ends what was given up. */
function endOfPart({ kind, start }: OpenPart, cancelledAs: 'finished' | 'error'): AguiEvent {
  const { type, messageId, toolCallId, stepName, subagentRunId, threadId, runId } = start;
  const isRun = kind === 'RUN';
  const isFailed = isRun ? cancelledAs === 'error' : kind === 'SUBAGENT';
  const end = isFailed
    ? { type: `${kind}_ERROR`, subagentRunId, message: 'The run was cancelled', code: 'cancelled' }
    : {
        ...{ type: `${kind}_${/ED$/.test(type) ? 'FINISHED' : 'END'}`, messageId, toolCallId, stepName, subagentRunId, threadId, runId },
        outcome: isRun ? { type: 'cancelled' } : undefined,
      };
  // To the client a field that is undefined is one it does not know; in JSON there is none.
  return JSON.parse(JSON.stringify(end)) as AguiEvent;
}

/** What a run says of itself beside its names and the time. */
type OwnFields<E> = E extends unknown ? Omit<E, 'at' | 'threadId' | 'runId'> : never;
