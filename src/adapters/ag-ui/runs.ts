import type { Observable, SchedulerLike, Subscriber } from 'rxjs';
import { Subject } from 'rxjs';
import { abortReason, ask, connect, report } from '../../../operators/toolkit.js';
import type { Cost, Lease, Limiter, Usage } from '../../../operators/types.js';
import { Brackets } from './brackets.js';
import type { AguiFlowEvent, AguiOutcome } from './run-events.js';
import { usageOf } from './run-events.js';
import { said } from './said.js';
import { inPlaceOf } from './streams.js';
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

const NAME = 'aguiFlow';

/** The runs of one flow: at most one for each key goes on. */
export class Runs {
  readonly #told = new Subject<AguiFlowEvent>();
  readonly events: Observable<AguiFlowEvent> = this.#told.asObservable();
  /** By key. */
  readonly #current = new Map<unknown, Run>();
  readonly #byId = new Map<string, Run>();
  /** The run whose agent is being called. */
  #starting: Run | undefined;

  constructor(readonly rules: RunRules) {}

  tell(event: AguiFlowEvent): void {
    this.#told.next(event);
  }

  /** The signal of the run that a request belongs to: the one that is being started, else the one that its body names. */
  signalOf({ body }: RequestInit): AbortSignal | undefined {
    return (this.#starting ?? this.#byId.get(runIdIn(body) as string))?.signal;
  }

  readonly switchRuns: AguiMiddleware = <I extends AguiInput, O extends AguiStream>(input: I, next: AguiNext<I, O>): O =>
    inPlaceOf(next, (to, start) => {
      const run = new Run(this, input, ask(NAME, 'key', this.rules.key, input), to);
      const before = this.#current.get(run.key);
      // First of all: whoever hears of the old one may start another, which is newer than this.
      this.#current.set(run.key, run);
      this.#byId.set(input.runId, run);
      to.add(() => {
        run.giveUp('left');
        if (this.#current.get(run.key) === run) this.#current.delete(run.key);
        if (this.#byId.get(input.runId) === run) this.#byId.delete(input.runId);
      });
      before?.giveUp('superseded');
      if (to.closed) return;
      run.admit(() => {
        const outer = this.#starting;
        this.#starting = run;
        try {
          connect(start(input), to, run);
        } catch (error) {
          run.error(error);
        } finally {
          this.#starting = outer;
        }
      });
    });
}

class Run {
  readonly #controller = new AbortController();
  readonly #brackets = new Brackets();
  #lease: Lease | undefined;
  /** Tokens, as they were estimated. */
  #paidFor = 0;
  #hasStarted = false;
  /** Its end was handed on: nothing but another run may follow in its stream. */
  #hasEnded = false;
  /** Nobody listens any more. */
  #isOver = false;
  #chunks = 0;
  #text = '';

  constructor(
    readonly runs: Runs,
    readonly input: AguiInput,
    readonly key: unknown,
    readonly to: Subscriber<AguiEvent>,
  ) {}

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Begins when the limiter lets it. */
  admit(begin: () => void): void {
    const { limiter, lane, cost } = this.runs.rules;
    this.#tell({ type: 'runStarted' });
    if (limiter === undefined) {
      begin();
      return;
    }
    const costs = cost && ask(NAME, 'cost', cost, this.input);
    this.#paidFor = costs?.tokens ?? 0;
    connect(limiter.acquire(said({ lane, cost: costs })), this.to, {
      next: (lease) => {
        this.#lease = lease;
        begin();
      },
      error: (error) => {
        this.error(error);
      },
      // It goes on with the lease.
      complete: () => undefined,
    });
  }

  next(event: AguiEvent): void {
    if (this.#isOver) return;
    const { type } = event;
    if (type === 'RUN_STARTED') {
      // Another one in the same stream: what the last one left open was ended with it.
      if (this.#hasEnded) this.#tell({ type: 'runStarted' });
      this.#brackets.close();
      this.#hasEnded = false;
      this.#hasStarted = true;
    } else if (this.#hasEnded) {
      this.#tell({ type: 'eventDropped', event: type });
      return;
    }
    const { delta } = event as { readonly delta?: unknown };
    if (typeof delta === 'string') {
      this.#chunks++;
      this.#text += delta;
    } else {
      this.#brackets.see(event);
    }
    if (type === 'RUN_FINISHED' || type === 'RUN_ERROR') this.#end(outcomeOf(event), event);
    this.to.next(event);
  }

  error(error: unknown): void {
    if (this.#isOver) return;
    const isLate = this.#hasEnded;
    this.#stop((Object(error) as { readonly name?: unknown }).name === 'AbortError' ? 'cancelled' : 'failed');
    if (!isLate) this.to.error(error);
    else {
      this.#tell({ type: 'eventDropped', event: 'error' });
      this.to.complete();
    }
  }

  /** A stream that ends before its run has been cut off on the way. */
  complete(): void {
    if (!this.#hasEnded) this.next({ type: 'RUN_ERROR', message: 'The stream ended before the run did', code: 'incomplete' });
    this.#isOver = true;
    this.to.complete();
  }

  /** Stops it at the server; its stream ends as the protocol wants it when somebody still listens to it. */
  giveUp(reason: 'superseded' | 'left'): void {
    if (this.#isOver) return;
    const isEarly = !this.#hasEnded;
    this.#stop(reason);
    if (reason === 'left') return;
    if (isEarly) for (const event of this.#lastEvents()) this.to.next(event);
    this.to.complete();
  }

  *#lastEvents(): Iterable<AguiEvent> {
    const { threadId, runId } = this.input;
    if (this.runs.rules.cancelledAs === 'error') {
      yield* this.#brackets.close();
      yield { type: 'RUN_ERROR', message: 'A newer run took its place', code: 'cancelled' };
      return;
    }
    if (!this.#hasStarted) yield { type: 'RUN_STARTED', threadId, runId };
    yield* this.#brackets.close();
    yield { type: 'RUN_FINISHED', threadId, runId, outcome: { type: 'cancelled' } };
  }

  #stop(outcome: AguiOutcome): void {
    this.#isOver = true;
    // First of all, so that whoever takes over finds the server told; what cannot be read is still sent, too.
    this.#controller.abort(abortReason());
    this.#end(outcome);
  }

  #tell(event: OwnFields<AguiFlowEvent>): void {
    const { threadId, runId } = this.input;
    this.runs.tell({ ...event, at: this.runs.rules.scheduler.now(), threadId, runId });
  }

  /** What is known by now is told and paid, once for each run. */
  #end(outcome: AguiOutcome, event?: AguiEvent): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const { onSupersede } = this.runs.rules;
    const usage = event && usageOf(event);
    const estimatedTokens = this.#countTokens();
    const code = typeof event?.['code'] === 'string' ? event['code'] : undefined;
    this.#pay(outcome, usage, estimatedTokens);
    this.#tell({ type: 'runEnded', outcome, chunks: this.#chunks, estimatedTokens, ...said({ code, usage }) });
    this.#chunks = 0;
    this.#text = '';
    if (onSupersede === undefined || !isGivenUp(outcome)) return;
    const { threadId, runId } = this.input;
    const run = { threadId, runId, reason: outcome, input: this.input };
    // Called at once, because the page may be closing; its failure is not that of a run.
    new Promise((resolve) => {
      resolve(onSupersede(run));
    }).then(undefined, report);
  }

  #pay(outcome: AguiOutcome, usage: Usage | undefined, estimatedTokens: number): void {
    const lease = this.#lease;
    this.#lease = undefined;
    if (usage !== undefined) lease?.settle(usage);
    // What it was to cost stands, unless more has come already.
    else if (estimatedTokens > this.#paidFor) lease?.settle({ outputTokens: estimatedTokens });
    lease?.release(outcome === 'failed' ? 'error' : isGivenUp(outcome) ? 'cancelled' : 'ok');
  }

  /** One that throws must not keep the permit, or stop whoever leaves. */
  #countTokens(): number {
    try {
      return this.#text === '' ? 0 : ask(NAME, 'countTokens', this.runs.rules.countTokens, this.#text);
    } catch (error) {
      report(error);
      return 0;
    }
  }
}

/** What a run says of itself beside its names and the time. */
type OwnFields<E> = E extends unknown ? Omit<E, 'at' | 'threadId' | 'runId'> : never;

function isGivenUp(outcome: AguiOutcome): outcome is AbandonedRun['reason'] {
  return outcome === 'superseded' || outcome === 'left' || outcome === 'cancelled';
}

function outcomeOf({ type, code, outcome }: AguiEvent): AguiOutcome {
  if (type === 'RUN_ERROR') return code === 'abort' ? 'cancelled' : 'failed';
  const how = (Object(outcome) as { readonly type?: unknown }).type;
  if (how === 'interrupt') return 'interrupted';
  return how === 'cancelled' ? 'cancelled' : 'finished';
}

/** The run that the body of a request names. */
function runIdIn(body: unknown): unknown {
  if (typeof body !== 'string') return undefined;
  try {
    return (Object(JSON.parse(body)) as { readonly runId?: unknown }).runId;
  } catch {
    return undefined;
  }
}
