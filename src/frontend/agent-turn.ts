import type { Subscriber } from 'rxjs';
import { isObservable, map, noop, Observable, Subject, Subscription } from 'rxjs';
import { captureContext } from '#async-context';
import { check, connect, streamOf } from '../../operators/build.js';
import { CallbackError, fromStream } from '../../operators/index.js';
import type { ModelStream } from '../pipelines/models/model-types.js';
import { failed } from '../pipelines/tools/tool-results.js';
import type { ToolCall, ToolResult } from '../pipelines/tools/tool-types.js';
import type { ModelPart } from '../streams/model-part.js';
import { ModelReader } from '../streams/model-reader.js';
import type { HeldGuesses } from './held-guesses.js';
import type { OpenStep } from './open-history.js';
import type { TurnOrder } from './turn-machine.js';
import { notMade, TurnMachine } from './turn-machine.js';
import type { TurnSettings } from './turn-options.js';
import { NAME } from './turn-options.js';
import type { CancelReason, TurnClock, TurnMessage, TurnNews, TurnPlace } from './turn-types.js';

/** What a turn needs of its conversation. */
export interface TurnHost {
  readonly key: string;
  /** What a model takes, without what this turn has added. */
  readonly messages: readonly TurnMessage[];
  /** Ids of all calls. */
  readonly ids: Set<string>;
  readonly guesses: HeldGuesses | undefined;
  tell(turn: AgentTurn, news: TurnNews): void;
  /** It is over, and leaves `kept`. Everybody is told the last news once `stop` has stopped what goes on. */
  ended(turn: AgentTurn, kept: readonly TurnMessage[], news: () => readonly TurnNews[], stop: () => void): void;
}

/** One turn: asks the model, makes the calls, and asks again. The machine decides, here it is done. */
export class AgentTurn implements TurnPlace {
  readonly turnId: string;
  readonly key: string;
  /** Counts turns, for what was guessed before it. */
  readonly number: number;
  isOver = false;
  readonly #host: TurnHost;
  readonly #settings: TurnSettings;
  readonly #given: unknown;
  readonly #machine: TurnMachine;
  readonly #question: TurnMessage | undefined;
  /** The caller's: later steps start from other call stacks. */
  readonly #context = captureContext();
  #isBegun = false;
  /** Of the policy that the turn is held to. */
  #clock: TurnClock | undefined;
  #whenOver: (() => void) | undefined;
  /** What the step listens to. */
  #listening: Subscription = new Subscription();
  #controller = new AbortController();
  #calls: Subject<ToolCall> | undefined;
  /** Ends the pause of the clock, while the step waits for a person. */
  #resume: (() => void) | undefined;
  #next: TurnOrder = 'wait';
  #isAdvancing = false;

  constructor(host: TurnHost, settings: TurnSettings, number: number, given: unknown, question: TurnMessage | undefined) {
    this.#host = host;
    this.key = host.key;
    this.#settings = settings;
    this.number = number;
    this.turnId = turnIdOf(number);
    this.#given = given;
    this.#question = question;
    this.#machine = new TurnMachine(settings, host.ids);
    if (question) this.#machine.messages.push(question);
  }

  /** The whole turn, held to the policy. Completes when it is over; leaving it before means that a newer turn has superseded it. */
  lived(begin: () => void): Observable<never> {
    const { policy } = this.#settings;
    const life = (clock?: TurnClock): Observable<never> =>
      new Observable((subscriber) => {
        this.#clock = clock;
        this.#isBegun = true;
        this.#whenOver = () => {
          subscriber.complete();
        };
        begin();
        if (this.isOver) subscriber.complete();
      });
    return new Observable((subscriber) => {
      subscriber.add(() => {
        this.cancel('superseded');
      });
      connect(policy ? policy(life) : life(), subscriber, {
        next: noop,
        error: (error) => {
          this.fail(error);
          subscriber.complete();
        },
      });
    });
  }

  get step(): number {
    return this.#machine.step;
  }

  /** What the turn has added to the conversation. */
  get messages(): readonly TurnMessage[] {
    return this.#machine.messages;
  }

  /** The step under way. */
  get open(): readonly TurnMessage[] {
    return this.#machine.open;
  }

  get pending(): number {
    return this.#machine.pending.length;
  }

  /**
   * @param open - the step that a turn without a question goes on with
   * @param closed - what a question has closed
   */
  start(open: OpenStep | undefined, closed: readonly TurnMessage[]): void {
    this.#tell({ type: 'started', ...(this.#question && { message: this.#question }), ...(closed.length > 0 && { closed }) });
    if (this.isOver) return;
    if (open) {
      const calls = this.#machine.reopen(open.message, open.results);
      this.#clock?.restartTimeout();
      for (const call of calls) this.#tell({ type: 'toolCall', call });
      this.#run(calls);
    } else {
      const last = this.#question ?? this.#host.messages.at(-1);
      // The model has had the last word.
      this.#next = last === undefined || last.role === 'assistant' ? 'done' : 'model';
    }
    this.#advance();
  }

  // ---- the model ----------------------------------------------------------------------------------------------------

  /** One step after the other in a loop: a model and tools that answer at once must not recurse. */
  #advance(): void {
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    while (this.#next !== 'wait' && !this.isOver) {
      const order = this.#next;
      this.#next = 'wait';
      if (order === 'model') this.#ask();
      else this.#finish(order);
    }
    this.#isAdvancing = false;
  }

  #ask(): void {
    this.#machine.asks();
    this.#clock?.restartTimeout();
    this.#listen((signal, listening) => {
      this.#hear(signal, listening);
    });
  }

  #hear(signal: AbortSignal, listening: Subscriber<never>): void {
    const reader = new ModelReader(NAME);
    const hear = (parts: readonly ModelPart[]): void => {
      for (const part of parts) {
        const news = this.isOver ? undefined : this.#machine.hears(part);
        if (news) this.#tell(news);
      }
    };
    const { model, runner } = this.#settings;
    const about = { turnId: this.turnId, key: this.key, step: this.step, tools: runner?.tools ?? [], context: this.#given };
    const messages = [...this.#host.messages, ...this.messages];
    const stream = piecesOf(this.#context.run(() => model(messages, { ...about, signal }), undefined));
    // The model may have ended the turn.
    if (this.isOver) return;
    connect(stream, listening, {
      next: (event) => {
        this.#machine.counts();
        hear(reader.push(event));
      },
      complete: () => {
        hear(reader.end());
        const unfinished = reader.unfinished() ?? reader.cut();
        if (unfinished !== undefined) this.fail(unfinished);
        else if (!this.isOver) this.#run(this.#machine.said());
        this.#advance();
      },
    });
  }

  // ---- tools --------------------------------------------------------------------------------------------------------

  #run(calls: readonly ToolCall[]): void {
    if (this.isOver) return;
    if (calls.length === 0) {
      this.#closeStep();
      return;
    }
    const given = new Subject<ToolCall>();
    this.#calls = given;
    this.#listen((signal, listening) => {
      const { runner } = this.#settings;
      const made = given.pipe(runner ? runner.mapCalls({ context: this.#given, signal }) : map(noSuchTool));
      connect(made, listening, {
        next: (result) => {
          this.#take(result);
        },
      });
    });
    // Of the first of them, a listener may have ended the turn.
    this.#context.run(() => {
      for (const call of calls) if (this.#calls === given) this.#consider(call);
    }, undefined);
  }

  #consider(call: ToolCall): void {
    const verdict = this.#machine.verdict(call) ?? this.#needsNobody(call);
    // Whoever was asked may have ended the turn.
    if (this.isOver) return;
    if (verdict === undefined) {
      const news = this.#machine.waits(call);
      this.#resume ??= this.#clock?.pauseTimeout();
      this.#tell(news);
    } else this.#decide(call, verdict);
  }

  /** True when nobody has to allow the call; undefined when somebody has to; a text when nobody can. */
  #needsNobody(call: ToolCall): boolean | string | undefined {
    const { needsApproval, runner } = this.#settings;
    const tool = runner?.tools.find(({ name }) => name === call.name);
    // There is no such tool: the runner says so.
    if (needsApproval === undefined || tool === undefined) return true;
    try {
      const { turnId, key, step } = this;
      return needsApproval(call, { turnId, key, step, tool, context: this.#given }) ? undefined : true;
    } catch {
      return 'nobody could be asked';
    }
  }

  answer(callId: string, verdict: boolean | string, appliesTo: 'call' | 'tool'): boolean {
    const decided = this.isOver ? undefined : this.#machine.decides(callId, verdict, appliesTo);
    if (decided === undefined) return false;
    if (this.pending === 0) {
      this.#resume?.();
      this.#resume = undefined;
    }
    for (const call of decided) {
      if (!this.isOver) this.#tell({ type: 'answered', call, isAllowed: verdict === true });
      if (!this.isOver) this.#decide(call, verdict);
    }
    this.#advance();
    return true;
  }

  #decide(call: ToolCall, verdict: boolean | string): void {
    if (verdict === true) {
      this.#make(call);
      return;
    }
    const message = typeof verdict === 'string' && verdict !== '' ? `permission denied: ${verdict}` : 'permission denied';
    this.#take(failed({ call, index: 0, attempts: 0, durationMs: 0 }, { code: 'permission_denied', message }));
  }

  #make(call: ToolCall): void {
    const given = this.#calls;
    const guess = this.#host.guesses?.take(call, this.key, this.#given);
    if (guess === undefined) {
      given?.next(call);
      return;
    }
    this.#listening.add(guess.running);
    guess.whenOver((result) => {
      if (this.isOver) return;
      if (result) this.#take({ ...result, tool_use_id: call.id });
      else given?.next(call);
    });
  }

  #take(result: ToolResult): void {
    const news = this.isOver ? undefined : this.#machine.takes(result);
    if (news === undefined) return;
    this.#tell(news);
    if (!this.isOver && this.#machine.isStepOver) this.#closeStep();
  }

  #closeStep(): void {
    this.#calls = undefined;
    // Its signal does not abort any more: the answer is whole, the calls are over.
    this.#controller = new AbortController();
    this.#listening.unsubscribe();
    const { news, order } = this.#machine.closeStep();
    this.#tell(news);
    this.#next = order;
    this.#advance();
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  cancel(reason: CancelReason): void {
    if (this.isOver) return;
    this.#cut(!this.#isBegun || (reason === 'superseded' && this.#machine.isSilent), (end) => ({ type: 'cancelled', reason, ...end }));
  }

  fail(error: unknown): void {
    if (this.isOver) return;
    this.#cut(!this.#isBegun, (end) => ({ type: 'failed', error, ...end }));
  }

  #finish(reason: 'done' | 'maxSteps'): void {
    const { answer: text, usage, fault } = this.#machine;
    this.#over(this.messages, () => [{ type: 'finished', reason, text, usage, ...(fault && { fault }) }]);
  }

  /** Every call has its result before the end, also those that nobody waits for any more. */
  #cut(isDropped: boolean, last: (end: Omit<Extract<TurnNews, { type: 'failed' }>, 'type' | 'error'>) => TurnNews): void {
    const answers = this.#machine.unanswered.map((call) => this.#machine.takes(notMade(call)));
    const waste = this.#machine.cut();
    const kept = isDropped || this.#settings.unfinished === 'drop' ? [] : [...this.messages];
    const { usage } = this.#machine;
    this.#over(kept, () => [...answers, last({ kept, wasted: waste(), usage })].filter((news) => news !== undefined));
  }

  /** State first, then what is to be told has its place; a listener to the signal may do anything, and all of that comes after. */
  #over(kept: readonly TurnMessage[], news: () => readonly TurnNews[]): void {
    this.isOver = true;
    this.#host.ended(this, kept, news, () => {
      this.#stopListening();
      this.#whenOver?.();
    });
  }

  /** For the model, or for its calls: what listens is known before anything can come of it. */
  #listen(start: (signal: AbortSignal, listening: Subscriber<never>) => void): void {
    this.#listening.unsubscribe();
    const controller = new AbortController();
    this.#controller = controller;
    new Observable<never>((listening) => {
      this.#listening = listening;
      start(controller.signal, listening);
    }).subscribe({
      error: (error: unknown) => {
        this.fail(error);
      },
    });
  }

  /** The signal first, then it is left. */
  #stopListening(): void {
    this.#calls = undefined;
    this.#controller.abort();
    this.#listening.unsubscribe();
  }

  #tell(news: TurnNews): void {
    this.#host.tell(this, news);
  }
}

export function turnIdOf(number: number): string {
  return `turn_${String(number)}`;
}

/** Closed at once when it is left, also while it is silent. */
function piecesOf(output: ModelStream<unknown>): Observable<unknown> {
  if (check.isPromise(output)) {
    const opening = Promise.resolve(output);
    // Whoever was asked may have ended the turn, and then nobody else handles its rejection.
    opening.catch(() => undefined);
    return fromStream(() => opening);
  }
  const { getReader, [Symbol.asyncIterator]: iterator } = Object(output) as { getReader?: unknown; [Symbol.asyncIterator]?: unknown };
  if (!isObservable(output) && (typeof getReader === 'function' || typeof iterator === 'function'))
    return fromStream(() => output as AsyncIterable<unknown>);
  const stream = streamOf<unknown>(output);
  if (stream === undefined) throw new CallbackError(NAME, 'model', 'must return a stream');
  return stream;
}

function noSuchTool(call: ToolCall): ToolResult {
  const message = `there is no tool \`${call.name}\``;
  return failed({ call, index: 0, attempts: 0, durationMs: 0 }, { code: 'unknown_tool', message });
}
