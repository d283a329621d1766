import type { Observable, Subscription } from 'rxjs';
import { AttemptTimeoutError, CallbackError, ClosedError, FlowConfigError } from '../../../operators/errors.js';
import { Alarm, abortReason, ask, LazySignal } from '../../../operators/toolkit.js';
import type { Lease, Usage } from '../../../operators/types.js';
import { AttemptCharge } from '../budget/attempt-charge.js';
import type { Reservation } from '../budget/budget-types.js';
import { underPermit } from '../limited.js';
import type { RunGiven } from './runner-types.js';
import type { RunnerConfig, ToolSetup } from './tool-setup.js';
import { NAME } from './tool-setup.js';
import { laterOf, Step } from './tool-step.js';
import type { AnyTool, GuardContext, GuardedCall, ToolCall, ToolContext, ToolRun } from './tool-types.js';

/** Who is told how an attempt goes. One of the five after `started` is called, once, unless it is given up. The slot is freed afterwards. */
export interface AttemptOwner {
  readonly config: RunnerConfig;
  /** What the calls of its run were given. */
  readonly given: RunGiven;
  /** The guard has said yes; the tool starts now. */
  started(): void;
  succeeded(value: unknown): void;
  failed(error: unknown): void;
  refused(reason: string | undefined, cause: unknown): void;
  /** The budget has no room for it, or cannot tell. */
  unaffordable(error: unknown): void;
  /** The guard had no answer in time. */
  unanswered(error: AttemptTimeoutError): void;
  /** Frees the slot of what was given up, now or when others have been given up, too. */
  free(release: () => void): void;
  /** Makes calls for a tool that makes calls. */
  runInside(calls: readonly ToolCall[], signal: AbortSignal, given: RunGiven): Observable<ToolRun>;
}

/** One attempt with its slot in hand: asks the guard, and with its yes starts the tool with the very arguments the guard has seen. */
export class ToolAttempt {
  readonly #owner: AttemptOwner;
  readonly #setup: ToolSetup;
  readonly #call: GuardedCall;
  readonly #number: number;
  readonly #lease: Lease | undefined;
  readonly #signal = new LazySignal();
  readonly #step = new Step();
  readonly #alarm: Alarm;
  #startedAt = 0;
  #charge: AttemptCharge | undefined;
  #isAsking = true;
  #isOver = false;

  constructor(owner: AttemptOwner, setup: ToolSetup, call: GuardedCall, number: number, lease: Lease | undefined) {
    this.#owner = owner;
    this.#setup = setup;
    this.#call = call;
    this.#number = number;
    this.#lease = lease;
    this.#alarm = new Alarm(owner.config.scheduler, () => {
      this.#expire();
    });
  }

  readonly #settle = (usage: Usage): void => {
    this.#charge?.used(usage);
  };

  start(): void {
    const { guard } = this.#owner.config;
    this.#startedAt = this.#alarm.now();
    this.#endsAfter(this.#askMs);
    if (guard === undefined) {
      this.#execute();
      return;
    }
    this.#step.follow<boolean | string>(
      () => guard(this.#call, new AskContext(this.#signal, this.#number, this.#setup.original, this.#owner.given.context)),
      (answer) => {
        if (answer === true) this.#execute();
        else this.#refuse(typeof answer === 'string' && answer !== '' ? answer : undefined, undefined);
      },
      (cause) => {
        this.#refuse(undefined, new CallbackError(NAME, 'guard', 'threw', cause));
      },
    );
  }

  /** Tears the work down and aborts its signal. Work that cannot be stopped keeps its slot for a while. */
  giveUp(error?: AttemptTimeoutError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#alarm.clear();
    const goingOn = this.#step.stop();
    this.#charge?.over();
    this.#signal.abort();
    const lease = this.#lease;
    if (lease === undefined) return;
    this.#owner.free(() => {
      if (this.#isAsking) lease.release('unused');
      else if (goingOn === undefined) lease.release(error ? 'error' : 'cancelled', error);
      else lease.releaseAfter(goingOn, error ?? abortReason());
    });
  }

  #execute(): void {
    const { tool } = this.#setup;
    const { given } = this.#owner;
    let reservation: Reservation | undefined;
    try {
      reservation = this.#reserve();
    } catch (error) {
      this.#end('unused', undefined, () => {
        this.#owner.unaffordable(error);
      });
      return;
    }
    // Whoever was asked, or told of the start, may have given the call up.
    if (!this.#isOver) {
      this.#isAsking = false;
      this.#endsAfter(this.#setup.timeoutMs);
      this.#owner.started();
    }
    if (this.#isOver) {
      reservation?.release();
      return;
    }
    this.#charge = reservation && new AttemptCharge(reservation);
    const context: ToolContext = new CallContext(this.#signal, this.#call.id, this.#number, given.context, this.#settle, (calls) => {
      // It would hold a slot that its calls may need.
      if (tool.runsTools !== true) throw new FlowConfigError(NAME, 'runsTools', 'true for a tool that makes calls', tool.runsTools);
      if (this.#isOver) throw new ClosedError(NAME);
      return this.#owner.runInside(calls, context.signal, given);
    });
    this.#step.follow<unknown>(
      (owner) => this.#inPermit(() => tool.execute(this.#call.input, context), owner),
      (value) => {
        this.#end('ok', undefined, () => {
          this.#owner.succeeded(value);
        });
      },
      (error) => {
        this.#end('error', error, () => {
          this.#owner.failed(error);
        });
      },
    );
  }

  /** What it calls may wait for permits of the same limiter, as long as there will be one. */
  #inPermit(work: () => unknown, owner: Subscription): unknown {
    const { limiter } = this.#setup;
    if (limiter === undefined) return work();
    return underPermit<unknown>({ operator: NAME, kind: 'tool', limiter }, this.#lease, () => {
      const output = work();
      return laterOf(output, owner) ?? output;
    });
  }

  #reserve(): Reservation | undefined {
    const { budget } = this.#owner.config;
    const { tool } = this.#setup;
    if (budget === undefined || tool.cost === undefined) return undefined;
    const usage = ask(NAME, 'cost', (args) => tool.cost?.(args), this.#call.input);
    return budget.reserve({ ...usage, model: tool.name, key: this.#owner.given.key });
  }

  #refuse(reason: string | undefined, cause: unknown): void {
    this.#end('unused', undefined, () => {
      this.#owner.refused(reason, cause);
    });
  }

  /** A guard is not waited for longer than any call, whatever time its tool has. */
  get #askMs(): number {
    return Math.min(this.#setup.timeoutMs, this.#owner.config.timeoutMs);
  }

  #endsAfter(ms: number): void {
    this.#alarm.set(this.#startedAt + ms);
  }

  #expire(): void {
    const error = new AttemptTimeoutError(NAME, this.#isAsking ? this.#askMs : this.#setup.timeoutMs);
    this.giveUp(error);
    if (this.#isAsking) this.#owner.unanswered(error);
    else this.#owner.failed(error);
  }

  /** The result goes out first: the next call in the slot must not overtake it. */
  #end(outcome: 'ok' | 'error' | 'unused', error: unknown, report: () => void): void {
    this.#isOver = true;
    this.#alarm.clear();
    if (outcome === 'error') this.#charge?.failed(error);
    else this.#charge?.over();
    report();
    this.#lease?.release(outcome, error);
  }
}

/** The signal is made on the first look. */
class AskContext implements GuardContext {
  readonly #signal: LazySignal;

  constructor(
    signal: LazySignal,
    readonly attempt: number,
    readonly tool: AnyTool,
    readonly context: unknown,
  ) {
    this.#signal = signal;
  }

  get signal(): AbortSignal {
    return this.#signal.signal;
  }
}

class CallContext implements ToolContext {
  readonly #signal: LazySignal;

  constructor(
    signal: LazySignal,
    readonly id: string,
    readonly attempt: number,
    readonly context: unknown,
    readonly settle: ToolContext['settle'],
    readonly run: ToolContext['run'],
  ) {
    this.#signal = signal;
  }

  get signal(): AbortSignal {
    return this.#signal.signal;
  }
}
