import type { Subscriber } from 'rxjs';
import { Observable, Subject } from 'rxjs';
import { ClosedError, FlowConfigError } from '../../operators/errors.js';
import type { Store } from '../../operators/to-store.js';
import { AbortCalls, ask, report, Shutdown, ShutdownHandle, unusable } from '../../operators/toolkit.js';
import type { ToolRunner } from '../pipelines/tools/runner-types.js';
import type { ToolCall } from '../pipelines/tools/tool-types.js';
import { AgentTurn, turnIdOf } from './agent-turn.js';
import type { ConversationHost } from './conversation.js';
import { Conversation } from './conversation.js';
import { HeldGuesses } from './held-guesses.js';
import type { OpenHistory } from './open-history.js';
import { contentProblem } from './open-history.js';
import type { AnyTurnOptions, TurnSettings } from './turn-options.js';
import { answerOptions, askOptions, guessOptions, historyOptions, keyOption, NAME, paceOption, readOptions } from './turn-options.js';
import type {
  AgentTurns,
  AgentTurnsSnapshot,
  AnswerOptions,
  AskArguments,
  GuessOptions,
  HistoryOptions,
  TurnEvent,
  TurnMessage,
  TurnNews,
  TurnStoreOptions,
  TurnView,
  UserContent,
} from './turn-types.js';

/** All conversations, what is told of them in its order, and the end of all. */
export class FlowAgentTurns extends ShutdownHandle implements AgentTurns<unknown>, ConversationHost {
  readonly events: Observable<TurnEvent>;
  readonly guesses: HeldGuesses | undefined;
  protected override readonly shutdown: Shutdown;
  readonly #settings: TurnSettings;
  readonly #ownRunner: ToolRunner | undefined;
  readonly #history: (key: string) => OpenHistory;
  readonly #conversations = new Map<string, Conversation>();
  readonly #events = new Subject<TurnEvent>();
  readonly #askers = new Map<AgentTurn, Subscriber<TurnEvent>>();
  readonly #signals = new AbortCalls();
  readonly #counts = { finished: 0, cancelled: 0, failed: 0, wastedTokens: 0 };
  #deliveries: (() => void)[] = [];
  #isDelivering = false;
  #turns = 0;

  constructor(options: AnyTurnOptions) {
    super();
    const { settings, ownRunner, guesses, history } = readOptions(options);
    this.#settings = settings;
    this.#ownRunner = ownRunner;
    this.#history = history;
    this.guesses = guesses && new HeldGuesses(guesses, settings.runner, settings.scheduler);
    this.events = this.#events.asObservable();
    this.shutdown = new Shutdown({
      operator: NAME,
      scheduler: settings.scheduler,
      stop: () => {
        this.guesses?.dropAll();
        this.#checkDrained();
      },
      abort: () => {
        for (const turn of [...this.#askers.keys()]) turn.cancel('closed');
        this.#checkDrained();
      },
    });
  }

  ask(intent: unknown, ...[options]: AskArguments<unknown>): Observable<TurnEvent> {
    const { toContent } = this.#settings;
    const given = askOptions(options);
    if (toContent === undefined) {
      const problem = contentProblem(intent);
      if (problem !== undefined) throw new FlowConfigError(NAME, 'intent', 'a text, or a list of parts, with something in it', intent);
    }
    return this.#turn(given, () => this.#question(intent));
  }

  resume(...[options]: AskArguments<unknown>): Observable<TurnEvent> {
    return this.#turn(askOptions(options), undefined);
  }

  stop(key?: string): void {
    if (key !== undefined) keyOption(key);
    this.guesses?.dropAll(key);
    for (const turn of [...this.#askers.keys()]) if (key === undefined || turn.key === key) turn.cancel('stopped');
  }

  answer(callId: string, allowed: boolean | string, options?: AnswerOptions): boolean {
    if (typeof allowed !== 'boolean' && typeof allowed !== 'string')
      throw new FlowConfigError(NAME, 'allowed', 'true, false or a text', allowed);
    const { key, scope } = answerOptions(options);
    const turns = [...this.#askers.keys()].filter((turn) => key === undefined || turn.key === key);
    return turns.some((turn) => turn.answer(callId, allowed, scope));
  }

  speculate(call: Pick<ToolCall, 'name' | 'input'>, options?: GuessOptions): boolean {
    const { key, context } = guessOptions(options);
    if (this.guesses === undefined || this.shutdown.isClosed) return false;
    return this.guesses.make(call, key, context, this.#conversations.get(key)?.newest ?? 0);
  }

  history(key?: string, options?: HistoryOptions): readonly TurnMessage[] {
    const { open } = historyOptions(options);
    const conversation = this.#conversation(keyOption(key));
    return open ? conversation.whole : conversation.settled;
  }

  forget(key: string): void {
    const conversation = this.#conversations.get(keyOption(key));
    // Before anybody is told: what is asked then begins anew.
    this.#conversations.delete(key);
    this.stop(key);
    conversation?.end();
  }

  store(key?: string, pace?: TurnStoreOptions): Store<TurnView>;
  store<V>(key: string, reduce: (view: V, event: TurnEvent) => V, initial: V, pace?: TurnStoreOptions): Store<V>;
  store(
    key?: string,
    reduce?: TurnStoreOptions | ((view: never, event: TurnEvent) => unknown),
    initial?: unknown,
    pace: TurnStoreOptions = {},
  ): Store<unknown> {
    const conversation = this.#conversation(keyOption(key));
    if (reduce === undefined) return conversation.view;
    if (typeof reduce === 'function')
      return conversation.store(reduce as never, initial, paceOption(pace, 'pace', 'the options of a store'));
    return conversation.paced(paceOption(reduce, 'reduce', 'a function, or the options of a store'));
  }

  snapshot(): AgentTurnsSnapshot {
    let pending = 0;
    for (const turn of this.#askers.keys()) pending += turn.pending;
    const conversations = this.#conversations.size;
    return { running: this.#askers.size, pending, conversations, guesses: this.guesses?.size ?? 0, ...this.#counts };
  }

  // ---- what happens in conversations --------------------------------------------------------------------------------

  told(turn: AgentTurn, conversation: Conversation, news: TurnNews): void {
    // Of what was accepted; who left is of no account.
    if (news.type === 'finished' || news.type === 'failed') this.shutdown.count('done');
    else if (news.type === 'cancelled' && news.reason === 'closed') this.shutdown.count('aborted');
    this.#tell({ turnId: turn.turnId, key: turn.key, step: turn.step, ...news }, conversation, this.#askers.get(turn));
    if (!isEnd(news)) return;
    this.#askers.delete(turn);
    this.#checkDrained();
  }

  together(work: () => void): void {
    const isOutermost = !this.#isDelivering;
    this.#isDelivering = true;
    try {
      work();
    } catch (error) {
      // A teardown of a stream of yours that throws must not keep anybody from being told.
      report(error);
    }
    if (isOutermost) this.#deliver();
  }

  /** A turn for each subscriber. */
  #turn({ key, signal, context }: ReturnType<typeof askOptions>, question: (() => TurnMessage) | undefined): Observable<TurnEvent> {
    return new Observable((subscriber) => {
      const number = ++this.#turns;
      let conversation: Conversation | undefined;
      let message: TurnMessage | undefined;
      const refuse = (news: TurnNews): void => {
        this.#tell({ turnId: turnIdOf(number), key, step: 0, ...news }, conversation, subscriber);
      };
      try {
        conversation = this.#conversation(key);
        message = question?.();
        if (signal?.aborted !== true) conversation = this.#freed(key);
      } catch (error) {
        refuse({ type: 'failed', error, ...NOTHING_DONE });
        return;
      }
      if (signal?.aborted === true) {
        refuse({ type: 'cancelled', reason: 'aborted', ...NOTHING_DONE });
        return;
      }
      if (this.shutdown.isClosed) {
        refuse({ type: 'failed', error: new ClosedError(NAME), ...NOTHING_DONE });
        return;
      }
      // Whoever was told may have made this asker leave.
      if (subscriber.closed) return;
      const turn = new AgentTurn(conversation, this.#settings, number, context, message);
      this.#askers.set(turn, subscriber);
      subscriber.add(() => {
        turn.cancel('left');
      });
      conversation.begin(turn, question === undefined);
      if (signal && !turn.isOver) {
        this.#signals.stop(signal, subscriber, () => {
          turn.cancel('aborted');
        });
      }
    });
  }

  #question(intent: unknown): TurnMessage {
    const content: unknown = ask(NAME, 'toContent', this.#settings.toContent ?? same, intent as never);
    if (contentProblem(content) === undefined) return { role: 'user', content: content as UserContent };
    throw unusable(NAME, 'toContent', 'a text, or a list of parts, with something in it', content);
  }

  /** One in which no turn is under way: the newest wins, also over what is asked while the older one is being ended, or its conversation forgotten. */
  #freed(key: string): Conversation {
    let conversation = this.#conversation(key);
    while (conversation.running && !this.shutdown.isClosed) {
      conversation.running.cancel('superseded');
      conversation = this.#conversation(key);
    }
    return conversation;
  }

  #conversation(key: string): Conversation {
    const known = this.#conversations.get(key);
    if (known) return known;
    const history = this.#history(key);
    // Whoever was asked for it may have begun the conversation.
    const conversation = this.#conversations.get(key) ?? new Conversation(this, key, history);
    this.#conversations.set(key, conversation);
    return conversation;
  }

  /** Everybody hears of everything in its order, whatever listeners do meanwhile. */
  #tell(event: TurnEvent, conversation: Conversation | undefined, asker: Subscriber<TurnEvent> | undefined): void {
    if (isEnd(event)) this.#count(event);
    this.#later(() => {
      conversation?.show(event);
      asker?.next(event);
      this.#events.next(event);
      if (isEnd(event)) asker?.complete();
    });
  }

  #later(delivery: () => void): void {
    this.#deliveries.push(delivery);
    if (!this.#isDelivering) this.#deliver();
  }

  #deliver(): void {
    this.#isDelivering = true;
    // Grows while it is gone through.
    for (const deliver of this.#deliveries) deliver();
    this.#deliveries = [];
    this.#isDelivering = false;
  }

  #count(event: EndEvent): void {
    this.#counts[event.type]++;
    if (event.type !== 'finished') this.#counts.wastedTokens += event.wasted.estimatedTokens;
  }

  #checkDrained(): void {
    if (!this.shutdown.isClosed || this.#askers.size > 0 || !this.shutdown.finish()) return;
    this.guesses?.dropAll();
    this.#ownRunner?.close();
    this.#later(() => {
      for (const conversation of this.#conversations.values()) conversation.end();
      this.#events.complete();
    });
  }
}

type EndEvent = Extract<TurnEvent, { type: 'finished' | 'cancelled' | 'failed' }>;

const NOTHING_DONE = { kept: [], wasted: { chunks: 0, estimatedTokens: 0 }, usage: { inputTokens: 0, outputTokens: 0 } } as const;

function isEnd<N extends TurnNews>(news: N): news is Extract<N, { type: 'finished' | 'cancelled' | 'failed' }> {
  return news.type === 'finished' || news.type === 'cancelled' || news.type === 'failed';
}

function same(intent: never): UserContent {
  return intent;
}
