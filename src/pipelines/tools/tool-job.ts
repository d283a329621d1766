import { captureContext } from '#async-context';
import { AttemptTimeoutError, CallbackError, isFlowError, OverflowError } from '../../../operators/errors.js';
import {
  Alarm,
  boundedHintMs,
  drawnFrom,
  isWithinShare,
  mayPass,
  mostThrottledMs,
  refusalDelayMs,
  retryDelayMs,
  verdictOrFatal,
} from '../../../operators/toolkit.js';
import type { FlowEvent, Lease, Place, RetryRule, Verdict } from '../../../operators/types.js';
import type { RunGiven } from './runner-types.js';
import type { CheckedArguments } from './tool-arguments.js';
import { checkArguments } from './tool-arguments.js';
import type { AttemptOwner } from './tool-attempt.js';
import { ToolAttempt } from './tool-attempt.js';
import { failed, messageOf, succeeded, textOf, written } from './tool-results.js';
import type { RunnerConfig, ToolSetup } from './tool-setup.js';
import { NAME } from './tool-setup.js';
import { Step } from './tool-step.js';
import type { GuardedCall, ToolCall, ToolError, ToolResult } from './tool-types.js';

/** Where a call is on its way; `'idle'` is in between, or while its arguments are checked. It has a slot while `'asking'` and `'executing'`. */
export type Phase = 'idle' | 'queued' | 'asking' | 'executing' | 'backingOff' | 'over';

/** What a call needs of the runner it belongs to. */
export interface JobHost {
  readonly config: RunnerConfig;
  now(): number;
  /** How many calls are in each phase. */
  readonly counts: Record<Phase, number>;
  /** Attempts under way that are not the first of their call. */
  retrying: number;
  /** Calls that wait after a refusal: no part of the share of retries. */
  refused: number;
  /** Tells a call from all others in events. */
  nextId(): string;
  readonly runInside: AttemptOwner['runInside'];
  free(release: () => void): void;
  /** The call is over; `result` is undefined when its caller has left. */
  ended(job: ToolJob, result: ToolResult | undefined, id: string): void;
  /** Comes after its caller was told. */
  checkDrained(): void;
}

/** What a job is about. */
interface JobAbout {
  readonly call: ToolCall;
  /** Tells it from all others in events. */
  readonly id: string;
  readonly index: number;
  /** Of its run. */
  readonly given: RunGiven;
  readonly hasDeadline: boolean;
}

/** One call on its way: its arguments are checked, it waits for its slot and is attempted; after a failure that may pass, once more. */
export class ToolJob implements AttemptOwner {
  phase: Phase = 'idle';
  /** How often the tool was started, but for starts that were refused and are made again. */
  attempts = 0;
  wasStarted = false;
  readonly setup: ToolSetup;
  readonly given: RunGiven;
  readonly #host: JobHost;
  readonly #call: ToolCall;
  /** Of whoever asked: an attempt begins when a permit is free, or after a pause. */
  readonly #context = captureContext();
  readonly #index: number;
  readonly #hasDeadline: boolean;
  /** Tells it from all others in events. */
  readonly #id: string;
  readonly #settled: (result: ToolResult) => void;
  readonly #acceptedAt: number;
  readonly #step = new Step();
  #guarded: GuardedCall | undefined;
  #place: Place | undefined;
  #attempt: ToolAttempt | undefined;
  #startedAt = 0;
  /** It waits after a refusal. */
  #isRefused = false;
  /** How long it has waited after refusals. */
  #refusedMs = 0;
  /** Ends the pause before the next attempt, or the check of the arguments. */
  #alarm: Alarm | undefined;

  constructor(host: JobHost, setup: ToolSetup, { call, id, index, given, hasDeadline }: JobAbout, settled: (result: ToolResult) => void) {
    this.#host = host;
    this.setup = setup;
    this.given = given;
    this.#call = call;
    this.#index = index;
    this.#hasDeadline = hasDeadline;
    this.#id = id;
    this.#settled = settled;
    this.#acceptedAt = host.now();
    host.counts.idle++;
  }

  get config(): RunnerConfig {
    return this.#host.config;
  }

  get runInside(): AttemptOwner['runInside'] {
    return this.#host.runInside;
  }

  free(release: () => void): void {
    this.#host.free(release);
  }

  start(): void {
    // Whoever was told of it may have given it up.
    if (this.phase === 'over') return;
    this.#step.follow<CheckedArguments>(
      () => checkArguments(this.setup.tool.parameters, this.#call.input),
      (checked) => {
        this.#alarm?.clear();
        if ('issues' in checked) {
          this.#fail({ code: 'invalid_arguments', message: 'the arguments do not fit the tool', issues: checked.issues });
          return;
        }
        const { id, name } = this.#call;
        this.#guarded = Object.freeze({ id, name, input: checked.input });
        this.#wait();
      },
      (cause) => {
        this.#alarm?.clear();
        const error = new CallbackError(NAME, 'parameters', 'threw', cause);
        this.#fail({ code: 'failed', message: 'the arguments could not be checked' }, error);
      },
    );
    // A schema that takes its time.
    if (this.phase === 'idle') this.#ringIn(this.config.timeoutMs);
  }

  /** Gives it up, whatever it is doing, with this error as its result. */
  cancel(error: ToolError, cause: unknown): void {
    if (this.phase === 'over') return;
    this.#stop();
    this.#report(failed(this.#facts(), error, cause));
  }

  /** Gives it up for nobody. */
  leave(): void {
    if (this.phase === 'over') return;
    this.#stop();
    this.#tell({ type: 'cancelled', ...this.#about(), count: 1 });
    this.#host.ended(this, undefined, this.#id);
    this.#host.checkDrained();
  }

  /** State first: a listener to the signal may do anything. */
  #stop(): void {
    const wasExecuting = this.phase === 'executing';
    this.#enter('over');
    this.#alarm?.clear();
    this.#step.stop();
    this.#place?.withdraw();
    this.#attempt?.giveUp();
    if (wasExecuting) this.#tellEnd('cancelled');
  }

  // ---- waiting for a slot -------------------------------------------------------------------------------------------

  #wait(): void {
    const { limiter } = this.setup;
    this.#enter('queued');
    if (limiter === undefined) {
      this.#begin(undefined);
      return;
    }
    this.#queueIn(limiter);
    const { maxQueued, tell } = this.config;
    // A call that was let in once is not sent away at its next attempt.
    if (this.#place === undefined || this.wasStarted || this.#host.counts.queued <= maxQueued) return;
    tell({ type: 'dropped', ...this.#about(), policy: 'error' });
    this.cancel({ code: 'queue_full', message: 'too many calls are waiting' }, new OverflowError(NAME, maxQueued, 'error'));
  }

  #queueIn(limiter: NonNullable<ToolSetup['limiter']>): void {
    let isWaiting = true;
    const granted = (lease: Lease): void => {
      isWaiting = false;
      this.#place = undefined;
      // It may have been given up in the very moment its turn came.
      if (this.phase === 'queued') this.#begin(lease);
      else lease.release('unused');
    };
    const refused = (error: unknown): void => {
      isWaiting = false;
      this.#place = undefined;
      this.#fail({ code: isFlowError(error, 'FLOW_CLOSED') ? 'closed' : 'failed', message: messageOf(error) }, error);
    };
    const place = limiter.enlist({ granted, refused, key: this.given.key }, this.config.lane);
    if (!isWaiting as boolean) return;
    this.#place = place;
    if (this.phase === 'over') place.withdraw();
  }

  // ---- an attempt ---------------------------------------------------------------------------------------------------

  #begin(lease: Lease | undefined): void {
    this.#enter('asking');
    const attempt = new ToolAttempt(this, this.setup, this.#guarded as GuardedCall, this.attempts + 1, lease);
    this.#attempt = attempt;
    this.#context.run(() => {
      attempt.start();
    }, undefined);
  }

  started(): void {
    this.attempts++;
    this.wasStarted = true;
    this.#enter('executing');
    if (this.attempts > 1) this.#host.retrying++;
    this.#startedAt = this.#host.now();
    this.#tell({
      type: 'attemptStarted',
      ...this.#about(),
      size: 1,
      weight: 1,
      attempt: this.attempts,
      splitDepth: 0,
      executing: this.#host.counts.executing,
    });
  }

  succeeded(value: unknown): void {
    this.#enter('idle');
    this.#tellEnd('ok');
    const { tool, refusals } = this.setup;
    refusals.answered(this.#startedAt);
    let text: string;
    try {
      text = tool.format ? written(tool.format(value)) : textOf(value);
    } catch (cause) {
      this.#fail({ code: 'unreadable_result', message: 'the tool ran, but its result cannot be written as text' }, cause);
      return;
    }
    // The results of other calls are cut each by itself.
    this.#settle(succeeded(this.#facts(), value, text, tool.runsTools ? Infinity : this.config.maxResultChars));
  }

  refused(reason: string | undefined, cause: unknown): void {
    this.#fail({ code: 'permission_denied', message: reason === undefined ? 'permission denied' : `permission denied: ${reason}` }, cause);
  }

  unaffordable(error: unknown): void {
    const isSpent = isFlowError(error, 'FLOW_BUDGET_EXCEEDED');
    this.#fail(
      isSpent ? { code: 'budget_exceeded', message: 'the budget has no room for the call' } : { code: 'failed', message: messageOf(error) },
      error,
    );
  }

  unanswered(error: AttemptTimeoutError): void {
    this.#fail({ code: 'timeout', message: `nobody allowed the call within ${String(error.timeoutMs)} ms` }, error);
  }

  failed(error: unknown): void {
    const { scheduler } = this.config;
    const { classify } = this.setup;
    const context = { size: 1, attempt: this.attempts, aborted: false, epochMs: scheduler.now() };
    const verdict = verdictOrFatal(NAME, classify, error, context);
    // `classify`, or who was told by the signal of an attempt that took too long, may have given the call up.
    if (this.phase === 'over') return;
    this.#enter('idle');
    this.#tellEnd(verdict.class);
    // By what the tool asks, not by a limiter of ours.
    const isRefusal = verdict.class === 'throttled' && !isFlowError(error);
    const delayMs = this.#delayMs(verdict, isRefusal);
    // It is about the tool, not about this one call: all its calls wait.
    const pauseMs = verdict.class === 'throttled' && !verdict.isTierOnly ? (delayMs ?? verdict.retryAfterMs) : undefined;
    if (pauseMs !== undefined) this.#pause(pauseMs);
    if (delayMs !== undefined) this.#backOff(verdict, delayMs, isRefusal);
    else if (isFlowError(error, 'FLOW_ATTEMPT_TIMEOUT') && error.operator === NAME) {
      this.#fail({ code: 'timeout', message: `the tool took longer than ${String(this.setup.timeoutMs)} ms` }, error);
    } else this.#fail({ code: 'failed', message: messageOf(error) }, error);
  }

  // ---- another attempt ----------------------------------------------------------------------------------------------

  /** How long to wait before the next attempt; undefined when there is none. */
  #delayMs(verdict: Verdict, isRefusal: boolean): number | undefined {
    const { retry, refusals } = this.setup;
    const { retryAfterMs } = verdict;
    const inARow = isRefusal ? refusals.refused(this.#startedAt, this.#host.now()) : 0;
    if (retry === undefined || !mayPass(verdict)) return undefined;
    if (!isRefusal && (this.attempts >= retry.maxAttempts || !this.#mayRetry(retry))) return undefined;
    try {
      const random01 = drawnFrom(NAME, this.config.random);
      if (!isRefusal) return retryDelayMs(this.attempts, retryAfterMs, retry, random01);
      const delayMs = refusalDelayMs(inARow, retryAfterMs, retry, random01);
      return this.#refusedMs + delayMs <= mostThrottledMs(retry, this.#hasDeadline) ? delayMs : undefined;
    } catch {
      // Without its source of chance there is no second attempt; the failure is what counts.
      return undefined;
    }
  }

  #mayRetry({ maxShare }: RetryRule): boolean {
    const { counts, retrying, refused } = this.#host;
    const waiting = counts.backingOff - refused;
    return isWithinShare(retrying + waiting, counts.executing + waiting, maxShare);
  }

  #pause(askedMs: number): void {
    const pauseMs = boundedHintMs(askedMs, (note) => {
      this.config.tell({ ...note, operator: NAME });
    });
    const { limiter, refusals } = this.setup;
    refusals.pause(this.#host.now() + pauseMs);
    // A pause of 0 would end one that somebody else has asked for.
    if (pauseMs > 0) limiter?.penalize(pauseMs);
    this.config.tell({ type: 'throttled', operator: NAME, pauseMs });
  }

  #backOff(verdict: Verdict, delayMs: number, isRefusal: boolean): void {
    // Whoever was told of the failure may have given the call up.
    if (this.phase === 'over') return;
    this.#enter('backingOff');
    if (isRefusal) {
      // Flow control, no failure: it takes no attempt, and nothing of the share of retries.
      this.attempts--;
      this.#isRefused = true;
      this.#refusedMs += delayMs;
      this.#host.refused++;
    }
    this.#ringIn(delayMs);
    const attempt = this.attempts + 1;
    this.#tell({ type: 'retryScheduled', ...this.#about(), class: verdict.class, size: 1, attempt, delayMs });
  }

  #ringIn(delayMs: number): void {
    this.#alarm ??= new Alarm(this.config.scheduler, () => {
      if (this.phase === 'backingOff') this.#wait();
      else this.#unchecked();
    });
    this.#alarm.set(this.#alarm.now() + delayMs);
  }

  #unchecked(): void {
    const { timeoutMs } = this.config;
    const message = `the arguments could not be checked within ${String(timeoutMs)} ms`;
    this.cancel({ code: 'timeout', message }, new AttemptTimeoutError(NAME, timeoutMs));
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  #fail(error: ToolError, cause?: unknown): void {
    this.#settle(failed(this.#facts(), error, cause));
  }

  #settle(result: ToolResult): void {
    if (this.phase === 'over') return;
    this.#enter('over');
    this.#report(result);
  }

  #report(result: ToolResult): void {
    this.#host.ended(this, result, this.#id);
    this.#settled(result);
    this.#host.checkDrained();
  }

  #facts() {
    return { call: this.#call, index: this.#index, attempts: this.attempts, durationMs: this.#host.now() - this.#acceptedAt };
  }

  #enter(phase: Phase): void {
    const { counts } = this.#host;
    if (this.#isRefused) {
      this.#isRefused = false;
      this.#host.refused--;
    }
    counts[this.phase]--;
    counts[phase]++;
    this.phase = phase;
  }

  #about() {
    return { operator: NAME, lane: this.#call.name, batchId: this.#id } as const;
  }

  #tellEnd(outcome: Extract<FlowEvent, { type: 'attemptEnded' }>['outcome']): void {
    const latencyMs = this.#host.now() - this.#startedAt;
    if (this.attempts > 1) this.#host.retrying--;
    this.#tell({ type: 'attemptEnded', ...this.#about(), size: 1, attempt: this.attempts, outcome, latencyMs });
  }

  #tell(event: FlowEvent): void {
    this.config.tell(event);
  }
}
