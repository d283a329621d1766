import type { Observable } from 'rxjs';
import { catchError, isObservable, map, of, Subject, takeUntil } from 'rxjs';
import { captureContext } from '#async-context';
import { ask, check, streamOf } from '../../../operators/build.js';
import type { FlowEvent, PolicyContext, PolicyGuardContext, Usage } from '../../../operators/index.js';
import { CallbackError, ClosedError, FlowConfigError, isFlowError } from '../../../operators/index.js';
import { AttemptCharge } from '../budget/attempt-charge.js';
import type { Reservation } from '../budget/budget-types.js';
import { underPermit } from '../limited.js';
import type { RunGiven } from './runner-types.js';
import type { Answer } from './tool-answer.js';
import { lastOfAll, mapped } from './tool-answer.js';
import type { CheckedArguments } from './tool-arguments.js';
import { checkArguments } from './tool-arguments.js';
import { AskContext, CallContext } from './tool-contexts.js';
import { isCutJson } from './tool-formats.js';
import { failed, messageOf, succeeded, textOf, written } from './tool-results.js';
import type { RunnerConfig, ToolSetup } from './tool-setup.js';
import { isLate, NAME } from './tool-setup.js';
import type { GuardedCall, ToolCall, ToolContext, ToolError, ToolResult, ToolRun } from './tool-types.js';

/** Where a call is on its way; `'idle'` is in between, or while its arguments are checked. It has a slot while `'asking'` and `'executing'`. */
export type Phase = 'idle' | 'queued' | 'asking' | 'executing' | 'backingOff' | 'over';

/** What a call needs of the runner it belongs to. */
export interface JobHost {
  readonly config: RunnerConfig;
  now(): number;
  /** How many calls are in each phase. */
  readonly counts: Record<Phase, number>;
  runInside(calls: readonly ToolCall[], signal: AbortSignal, given: RunGiven): Observable<ToolRun>;
  /** The call is over; `result` is undefined when its caller has left. */
  ended(job: ToolJob, result: ToolResult | undefined): void;
  /** Comes after its caller was told. */
  checkDrained(): void;
}

/** What a job is about. */
export interface JobAbout {
  readonly call: ToolCall;
  /** Tells it from all others in events. */
  readonly id: string;
  readonly index: number;
  /** Of its run. */
  readonly given: RunGiven;
  /** Longest time for its run, in ms, and when that is over. */
  readonly deadlineMs: number;
  readonly deadlineAt: number;
}

/** One call on its way: its arguments are checked, and the policy of its tool makes its attempts. */
export class ToolJob {
  phase: Phase = 'idle';
  /** How often the tool was started, but for starts that were refused and are made again. */
  attempts = 0;
  wasStarted = false;
  /** The end of the pause before its next attempt. */
  backsOffUntil = 0;
  readonly #acceptedAt: number;
  /** Of the attempt that is under way. */
  #startedAt: number | undefined;
  readonly #left = new Subject<void>();
  #guarded: GuardedCall | undefined;
  /** Why its guard, or the budget, has refused it. */
  #refusal: { readonly error: ToolError; readonly cause: unknown } | undefined;
  #deadlineMs = Infinity;
  /** The attempt that is under way, or was last. */
  #attempt: PolicyContext | undefined;
  /** What the budget has reserved for the attempt that is to start. */
  #reservation: Reservation | undefined;
  #charge: AttemptCharge | undefined;

  constructor(
    readonly host: JobHost,
    readonly setup: ToolSetup,
    readonly about: JobAbout,
    private readonly settled: (result: ToolResult) => void,
  ) {
    this.#acceptedAt = host.now();
    host.counts.idle++;
  }

  start(): void {
    // A listener to its acceptance may have cancelled it.
    if (this.phase === 'over') return;
    const { call } = this.about;
    let checked: ReturnType<typeof checkArguments>;
    try {
      checked = checkArguments(this.setup.tool.parameters, call.input);
      if (!('then' in checked)) {
        this.#checked(checked);
        return;
      }
    } catch (cause) {
      this.#uncheckable(cause);
      return;
    }
    // A schema that takes its time.
    const context = captureContext();
    const later = checked;
    this.#follow(
      this.host.config.limited(() => later),
      {
        next: (answer) => {
          context.run(() => {
            this.#checked(answer);
          }, undefined);
        },
        error: (error) => {
          const { timeoutMs } = this.host.config;
          if (!isLate(error, timeoutMs)) this.#uncheckable(error);
          else this.#fail({ code: 'timeout', message: `the arguments could not be checked within ${String(timeoutMs)} ms` }, error);
        },
      },
    );
  }

  /** Cancels it, whatever it is doing, with this error as its result. */
  cancel(error: ToolError, cause: unknown): void {
    if (this.#stop()) this.#report(failed(this.#facts(), error, cause));
  }

  /** Cancels it without a result. */
  leave(): void {
    if (!this.#stop()) return;
    this.host.config.tell?.({ type: 'cancelled', ...this.#named(), count: 1 });
    this.host.ended(this, undefined);
    this.host.checkDrained();
  }

  /** Events of its attempts from its policy. */
  heard(event: FlowEvent): void {
    const { counts, config } = this.host;
    switch (event.type) {
      case 'attemptStarted':
        this.attempts = event.attempt;
        this.wasStarted = true;
        this.#startedAt = event.at;
        this.#enter('executing');
        config.tell?.(Object.assign(event, this.#named(), { executing: counts.executing }));
        return;
      case 'attemptEnded':
        this.#enter('idle');
        this.#tellEnd(event);
        return;
      case 'retryScheduled':
        // A refusal takes no attempt.
        this.attempts = event.attempt - 1;
        this.backsOffUntil = this.host.now() + event.delayMs;
        this.#enter('backingOff');
        config.tell?.(Object.assign(event, this.#named()));
        return;
      default:
    }
  }

  #tellEnd(end: object): void {
    this.#startedAt = undefined;
    this.#notStarted();
    this.#charged(this.#charge, 'over');
    this.host.config.tell?.({ outcome: 'cancelled', ...end, ...this.#named(), type: 'attemptEnded' } as FlowEvent);
  }

  #stop(): boolean {
    if (this.phase === 'over') return false;
    this.#enter('over');
    this.#left.next();
    this.#notStarted();
    // A listener to the signal of an attempt that was too late has cancelled it.
    if (this.#startedAt !== undefined) this.#tellEnd({ size: 1, attempt: this.attempts, latencyMs: this.host.now() - this.#startedAt });
    return true;
  }

  // ---- the arguments ------------------------------------------------------------------------------------------------

  #checked(checked: CheckedArguments): void {
    const { id, name, input } = this.about.call;
    if ('issues' in checked) {
      const message = isCutJson(input) ? 'the arguments are not valid JSON' : 'the arguments do not fit the tool';
      this.#fail({ code: 'invalid_arguments', message, issues: checked.issues });
      return;
    }
    this.#guarded = Object.freeze({ id, name, input: checked.input });
    this.#attend();
  }

  #uncheckable(cause: unknown): void {
    this.#fail({ code: 'failed', message: 'the arguments could not be checked' }, new CallbackError(NAME, 'parameters', 'threw', cause));
  }

  // ---- its attempts -------------------------------------------------------------------------------------------------

  #attend(): void {
    const { setup, about, host } = this;
    const { guard, budget, lane = about.given.lane } = host.config;
    const { key } = about.given;
    const job = { ...(lane !== undefined && { lane }), ...(key !== undefined && { key }) };
    this.#enter('queued');
    if (about.deadlineAt < Infinity) this.#deadlineMs = Math.max(0, about.deadlineAt - host.now());
    const isGuarded = guard !== undefined || (budget !== undefined && setup.tool.cost !== undefined);
    const calls = setup.attempts((context) => this.#execute(context), {
      id: about.id,
      ...(this.#deadlineMs < Infinity && { deadlineMs: this.#deadlineMs }),
      ...(setup.limiter && (lane ?? key) !== undefined && { job }),
      ...(isGuarded && { guard: (context) => this.#allow(context) }),
    });
    let value: unknown;
    this.#follow(calls, {
      next: (answer) => {
        value = answer;
      },
      error: (error) => {
        this.#failed(error);
      },
      complete: () => {
        this.#succeeded(value);
      },
    });
  }

  /** Until it is cancelled, maybe by what it starts. */
  #follow<R>(source: Observable<R>, observer: { next(value: R): void; error(error: unknown): void; complete?(): void }): void {
    source.pipe(takeUntil(this.#left)).subscribe(observer);
  }

  /** The guard, and then the budget. */
  #allow(context: PolicyGuardContext): Answer<boolean | string> {
    this.#enter('asking');
    const { config } = this.host;
    const { guard, timeoutMs } = config;
    const { setup, about } = this;
    const asked = (told: PolicyGuardContext): unknown =>
      guard?.(this.#guarded as GuardedCall, new AskContext(told, context.attempt, setup.original, about.given.context));
    if (guard === undefined) return this.#affords();
    // A guard is not waited for longer than any call, whatever time its tool has.
    const answer = setup.timeoutMs > timeoutMs ? config.limited(asked) : asked(context);
    return mapped(answer, (isAllowed) => (isAllowed === true ? this.#affords() : (isAllowed as boolean)));
  }

  /** Whether the budget has room. One that is shared answers later. */
  #affords(): boolean | Observable<boolean> {
    const { budget } = this.host.config;
    const { tool } = this.setup;
    if (budget === undefined || tool.cost === undefined) return true;
    try {
      const usage = ask(NAME, 'cost', (args) => tool.cost?.(args), this.#guarded?.input);
      const reserving = budget.reserve({ ...usage, model: tool.name, key: this.about.given.key });
      if (!isObservable(reserving)) return this.#afforded(reserving);
      return reserving.pipe(
        map((reservation) => this.#afforded(reservation)),
        catchError((cause: unknown) => of(this.#unaffordable(cause))),
      );
    } catch (cause) {
      return this.#unaffordable(cause);
    }
  }

  #afforded(reservation: Reservation): boolean {
    this.#reservation = reservation;
    // A listener of the budget may have cancelled it.
    if (this.phase === 'over') this.#notStarted();
    return true;
  }

  #unaffordable(cause: unknown): boolean {
    const isSpent = isFlowError(cause, 'FLOW_BUDGET_EXCEEDED');
    const error: ToolError = isSpent
      ? { code: 'budget_exceeded', message: 'the budget has no room for the call' }
      : { code: 'failed', message: messageOf(cause) };
    this.#refusal = { error, cause };
    return false;
  }

  #execute(attempt: PolicyContext): unknown {
    const { setup, about, host } = this;
    const { tool, limiter } = setup;
    const { given } = about;
    this.#attempt = attempt;
    const charge = (this.#charge = this.#reservation && new AttemptCharge(this.#reservation));
    this.#reservation = undefined;
    const settle = (usage: Usage): void => {
      charge?.used(usage);
    };
    const context: ToolContext = new CallContext(attempt, about.call.id, given.context, settle, (calls) => {
      // It would hold a slot that its calls may need.
      if (tool.runsTools !== true) throw new FlowConfigError(NAME, 'runsTools', 'true for a tool that makes calls', tool.runsTools);
      if (this.#attempt !== attempt || this.phase !== 'executing') throw new ClosedError(NAME);
      return host.runInside(calls, context.signal, given);
    });
    const execute = (): unknown => lastOfAll(tool.execute(this.#guarded?.input, context), attempt);
    const work = charge ? () => this.#charging(charge, execute) : execute;
    // What it calls may wait for permits of the same limiter, as long as there will be one.
    if (limiter === undefined) return work();
    return underPermit<unknown>({ operator: NAME, kind: 'tool', limiter }, attempt.lease, work);
  }

  /** Work that its budget charges: what it fails with may have been free. */
  #charging(charge: AttemptCharge, work: () => unknown): unknown {
    const fail = (error: unknown): never => {
      this.#charged(charge, 'failed', error);
      throw error;
    };
    let output: unknown;
    try {
      output = work();
    } catch (error) {
      return fail(error);
    }
    const stream = streamOf(output);
    if (stream) return stream.pipe(catchError(fail));
    return check.isPromise(output) ? Promise.resolve(output).catch(fail) : output;
  }

  /** Once for each charge, and not for what fails after it was cancelled. */
  #charged(charge: AttemptCharge | undefined, how: 'over' | 'failed', error?: unknown): void {
    if (charge === undefined || this.#charge !== charge) return;
    this.#charge = undefined;
    charge[how](error);
  }

  #notStarted(): void {
    this.#reservation?.release();
    this.#reservation = undefined;
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  #succeeded(value: unknown): void {
    const { tool } = this.setup;
    let text: string;
    try {
      text = tool.format ? written(tool.format(value)) : textOf(value);
    } catch (cause) {
      this.#fail({ code: 'unreadable_result', message: 'the tool ran, but its result cannot be written as text' }, cause);
      return;
    }
    // The results of other calls are cut each by itself.
    this.#settle(succeeded(this.#facts(), value, text, tool.runsTools ? Infinity : this.host.config.maxResultChars));
  }

  #failed(error: unknown): void {
    const { phase, setup } = this;
    const { timeoutMs } = this.host.config;
    if (phase === 'over') return;
    if (isFlowError(error, 'FLOW_DEADLINE') && error.deadlineMs === this.#deadlineMs) {
      this.#fail({ code: 'timeout', message: `not over within the ${String(this.about.deadlineMs)} ms for all calls` }, error);
    } else if (phase === 'asking') {
      this.#denied(error, Math.min(timeoutMs, setup.timeoutMs));
    } else if (phase === 'queued' || phase === 'backingOff') {
      this.#unqueued(error);
    } else if (isLate(error, setup.timeoutMs) && this.#attempt?.signal.aborted) {
      this.#fail({ code: 'timeout', message: `the tool took longer than ${String(setup.timeoutMs)} ms` }, error);
    } else {
      const reason = isFlowError(error, 'FLOW_RETRY_SHARE') ? error.cause : error;
      this.#fail({ code: 'failed', message: messageOf(reason) }, error);
    }
  }

  #denied(error: unknown, askMs: number): void {
    const cause = isFlowError(error, 'FLOW_CALLBACK') ? error.cause : error;
    if (this.#refusal) this.#fail(this.#refusal.error, this.#refusal.cause);
    else if (isLate(cause, askMs)) this.#fail({ code: 'timeout', message: `no guard allowed the call within ${String(askMs)} ms` }, cause);
    else {
      const reason = isFlowError(error, 'FLOW_REFUSED') ? error.reason : undefined;
      this.#fail(
        { code: 'permission_denied', message: reason === undefined ? 'permission denied' : `permission denied: ${reason}` },
        error,
      );
    }
  }

  /** The limiter does not let it wait, or not any longer. */
  #unqueued(error: unknown): void {
    if (isFlowError(error, 'FLOW_OVERFLOW') || isFlowError(error, 'FLOW_RATE_LIMITED')) {
      this.host.config.tell?.({ type: 'dropped', ...this.#named(), policy: 'error' });
      this.#fail({ code: 'queue_full', message: 'too many calls are waiting' }, error);
    } else this.#fail({ code: isFlowError(error, 'FLOW_CLOSED') ? 'closed' : 'failed', message: messageOf(error) }, error);
  }

  #fail(error: ToolError, cause?: unknown): void {
    this.#settle(failed(this.#facts(), error, cause));
  }

  #settle(result: ToolResult): void {
    if (this.phase === 'over') return;
    this.#enter('over');
    this.#report(result);
  }

  #report(result: ToolResult): void {
    this.host.ended(this, result);
    this.settled(result);
    this.host.checkDrained();
  }

  #facts() {
    const { call, index } = this.about;
    return { call, index, attempts: this.attempts, durationMs: this.host.now() - this.#acceptedAt };
  }

  #enter(phase: Phase): void {
    if (this.phase === 'over') return;
    const { counts } = this.host;
    counts[this.phase]--;
    counts[phase]++;
    this.phase = phase;
  }

  #named() {
    return { lane: this.about.call.name, batchId: this.about.id };
  }
}
