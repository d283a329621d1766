import type { SchedulerLike, Subscriber } from 'rxjs';
import { captureContext } from '#async-context';
import { Ring } from '../../kernel/queues/ring.js';
import { ask } from '../../options/ask.js';
import type { FlowSink } from '../../options/events.js';
import { DEFAULT_LANE } from '../../options/lanes.js';
import type { WorkResult } from '../../options/types.js';
import { Alarm } from '../../shell/alarm.js';
import { InTurn } from '../../shell/in-turn.js';
import { StoppableWork } from './stoppable-work.js';

const NAME = 'speculate';

/** What a run is told. */
export interface SpeculateContext {
  /** Aborts when the prediction turned out wrong or too old, or nobody wants the result any more. */
  readonly signal: AbortSignal;
  /** True when the run was started on a prediction: nothing it does may be visible before it is confirmed. */
  readonly isSpeculative: boolean;
}

export interface SpeculateSettings<P, T, R> {
  readonly match: (predicted: P, confirmed: T) => boolean;
  readonly run: (call: P | T, context: SpeculateContext) => WorkResult<R>;
  readonly ttlMs: number;
  readonly maxInFlight: number;
  readonly maxHeld: number;
  readonly scheduler: SchedulerLike;
  readonly onEvent: FlowSink | undefined;
}

/** Who hears of a run. */
interface Owner<R> {
  toldMore(run: Run<R>): void;
  failed(run: Run<R>, error: unknown): void;
}

/** One subscription of `speculate`. What the consumer predicts or confirms while it is handed a value waits its turn. */
export class Speculator<P, T, R> implements Owner<R> {
  readonly #settings: SpeculateSettings<P, T, R>;
  readonly #to: Subscriber<R>;
  readonly #alarm: Alarm;
  /** Runs that are not confirmed, oldest first. */
  readonly #open = new Map<Run<R>, { readonly predicted: P; readonly expiresAt: number }>();
  /** Confirmed runs under way. */
  readonly #confirmed = new Set<Run<R>>();
  readonly #turn: InTurn;
  /** Whether the consumer is being handed a value. */
  #telling = false;
  #done = false;

  constructor(settings: SpeculateSettings<P, T, R>, to: Subscriber<R>) {
    this.#settings = settings;
    this.#to = to;
    this.#turn = new InTurn(to);
    this.#alarm = new Alarm(settings.scheduler, () => {
      this.#do(() => {
        this.#expire();
      });
    });
  }

  predict(predicted: P): void {
    this.#doHere(() => {
      if (!this.#done) this.#speculate(predicted);
    });
  }

  confirm(confirmed: T): void {
    this.#doHere(() => {
      this.#confirm(confirmed);
    });
  }

  /** Nothing will be confirmed any more. */
  complete(): void {
    this.#do(() => {
      const unconfirmed = [...this.#open.keys()];
      this.#done = true;
      this.#open.clear();
      this.#alarm.clear();
      this.#giveUp(unconfirmed);
    });
  }

  stop(): void {
    // Whoever leaves with an answer gives nothing up.
    const running = [...this.#open.keys(), ...[...this.#confirmed].filter((run) => !run.isAnswered)];
    this.#alarm.clear();
    this.#open.clear();
    this.#confirmed.clear();
    this.#giveUp(running);
  }

  /** A run has more to show than is handed on. */
  toldMore(run: Run<R>): void {
    if (this.#confirmed.has(run)) {
      this.#tell(() => {
        this.#handOn(run);
      });
    } else if (run.held.length > this.#settings.maxHeld) {
      // Forgotten first: a listener may confirm the very call.
      this.#forget(run);
      this.#settings.onEvent?.({ type: 'dropped', operator: NAME, lane: DEFAULT_LANE, policy: 'maxHeld' });
      run.cancel();
    }
  }

  failed(run: Run<R>, error: unknown): void {
    if (this.#confirmed.delete(run)) {
      this.#tell(() => {
        this.#handOn(run);
        this.#to.error(error);
      });
      return;
    }
    // A prediction that could not be run says nothing about the real call: that one is made when it is confirmed.
    this.#forget(run);
    this.#settings.onEvent?.({ type: 'swallowed', operator: NAME, lane: DEFAULT_LANE });
  }

  /** In the asynchronous context of now, also when it has to wait its turn. */
  #doHere(command: () => void): void {
    const context = captureContext();
    this.#do(() => {
      context.run(command, undefined);
    });
  }

  #do(command: () => void): void {
    this.#turn.do(command);
    if (this.#done && !this.#turn.isBusy && this.#confirmed.size === 0 && !this.#to.closed) this.#to.complete();
  }

  /** Inside a turn as well, or a run that emits at once for ever would never be left; but not while the consumer has a value in hand. */
  #tell(command: () => void): void {
    if (this.#turn.isBusy && !this.#telling) command();
    else this.#do(command);
  }

  #speculate(predicted: P): void {
    const { maxInFlight, ttlMs } = this.#settings;
    if (this.#open.size >= maxInFlight) {
      const oldest = [...this.#open.keys()].slice(0, 1);
      for (const run of oldest) this.#open.delete(run);
      this.#giveUp(oldest);
      // A signal may have made the consumer leave.
      if (this.#to.closed) return;
    }
    const run = new Run<R>(this, true);
    this.#open.set(run, { predicted, expiresAt: this.#alarm.now() + ttlMs });
    this.#arm();
    this.#start(run, predicted);
  }

  #confirm(confirmed: T): void {
    const { match } = this.#settings;
    const guesses = [...this.#open];
    const found = guesses.find(([, { predicted }]) => ask(NAME, 'match', match, predicted, confirmed))?.[0];
    const wrong = guesses.flatMap(([run]) => (run === found ? [] : [run]));
    this.#open.clear();
    this.#alarm.clear();
    const run = found ?? new Run<R>(this, false);
    this.#confirmed.add(run);
    this.#giveUp(wrong);
    if (this.#to.closed) return;
    if (found === undefined) this.#start(run, confirmed);
    else this.#handOn(run);
  }

  #start(run: Run<R>, call: P | T): void {
    run.start(() => this.#settings.run(call, run));
  }

  #handOn(run: Run<R>): void {
    this.#telling = true;
    while (run.held.length > 0) this.#to.next(run.held.shift() as R);
    this.#telling = false;
    if (run.isOver) this.#confirmed.delete(run);
  }

  #expire(): void {
    const { ttlMs, onEvent } = this.#settings;
    const now = this.#alarm.now();
    for (const [run, { expiresAt }] of this.#open) {
      // They are in the order of their time, because all have the same.
      if (expiresAt > now) break;
      this.#open.delete(run);
      onEvent?.({ type: 'expired', operator: NAME, lane: DEFAULT_LANE, deadlineMs: ttlMs });
      run.cancel();
    }
    this.#arm();
  }

  #arm(): void {
    const [first] = this.#open.values();
    this.#alarm.set(first?.expiresAt ?? Infinity);
  }

  #forget(run: Run<R>): void {
    this.#open.delete(run);
    this.#arm();
  }

  #giveUp(runs: readonly Run<R>[]): void {
    if (runs.length === 0) return;
    this.#settings.onEvent?.({ type: 'cancelled', operator: NAME, lane: DEFAULT_LANE, count: runs.length });
    for (const run of runs) run.cancel();
  }
}

/** One run of a call: what it is told, and what it has said so far. */
class Run<R> extends StoppableWork<R> implements SpeculateContext {
  /** What it said and nobody was told. */
  readonly held = new Ring<R>();
  isOver = false;

  constructor(
    readonly owner: Owner<R>,
    readonly isSpeculative: boolean,
  ) {
    super();
  }

  /** The signal of a run that has ended stays as it is. */
  override cancel(): void {
    if (!this.isOver) super.cancel();
  }

  said(value: R): void {
    if (this.aborted) return;
    this.held.push(value);
    this.owner.toldMore(this);
  }

  done(): void {
    if (this.aborted) return;
    this.isOver = true;
    this.owner.toldMore(this);
  }

  failed(error: unknown): void {
    if (this.aborted) return;
    this.isOver = true;
    this.owner.failed(this, error);
  }
}
