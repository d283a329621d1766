import type { Subscriber } from 'rxjs';
import { EMPTY, Observable, Subject } from 'rxjs';
import { AbortCalls, report, type Shutdown, ShutdownHandle } from '../../operators/build.js';
import type { Store } from '../../operators/index.js';
import { ClosedError, FlowConfigError, switchLatest } from '../../operators/index.js';
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
  CancelReason,
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
export class FlowAgentTurns extends ShutdownHandle implements AgentTurns, ConversationHost {
  readonly events: Observable<TurnEvent>;
  readonly guesses: HeldGuesses | undefined;
  protected override readonly shutdown: Shutdown;
  readonly #settings: TurnSettings;
  readonly #history: (key: string) => OpenHistory;
  readonly #conversations = new Map<string, Conversation>();
  readonly #events = new Subject<TurnEvent>();
  /** What users ask: the newest of a conversation is answered. */
  readonly #intents = new Subject<Asked>();
  /** Accepted and not over. */
  readonly #asked = new Map<number, Asked>();
  readonly #signals = new AbortCalls();
  readonly #counts = { finished: 0, cancelled: 0, failed: 0, wastedTokens: 0 };
  #deliveries: (() => void)[] = [];
  #isDelivering = false;
  #turns = 0;

  constructor(options: AnyTurnOptions) {
    super();
    const { settings, guesses, history } = readOptions(options);
    this.#settings = settings;
    this.#history = history;
    this.guesses = guesses && settings.runner && new HeldGuesses(guesses, settings.runner, settings.scheduler);
    this.events = this.#events.asObservable();
    const onSuperseded = (asked: Asked): void => {
      this.#cancel(asked, 'superseded');
    };
    this.#intents.pipe(switchLatest((asked) => this.#begin(asked), { key: ({ key }) => key, onSuperseded })).subscribe();
    this.shutdown = this.shutdownOf({
      operator: NAME,
      scheduler: settings.scheduler,
      stop: () => {
        this.guesses?.dropAll();
        this.#checkDrained();
      },
      abort: () => {
        for (const asked of [...this.#asked.values()]) this.#cancel(asked, 'closed');
        this.#checkDrained();
      },
    });
  }

  ask(intent: UserContent, ...[options]: AskArguments<unknown>): Observable<TurnEvent> {
    const given = askOptions(options);
    if (contentProblem(intent) !== undefined)
      throw new FlowConfigError(NAME, 'intent', 'a text, or a list of parts, with something in it', intent);
    return this.#turn(given, intent);
  }

  resume(...[options]: AskArguments<unknown>): Observable<TurnEvent> {
    return this.#turn(askOptions(options), undefined);
  }

  stop(key?: string): void {
    if (key !== undefined) keyOption(key);
    this.guesses?.dropAll(key);
    for (const asked of [...this.#asked.values()]) if (key === undefined || asked.key === key) this.#cancel(asked, 'stopped');
  }

  answer(callId: string, allowed: boolean | string, options?: AnswerOptions): boolean {
    if (typeof allowed !== 'boolean' && typeof allowed !== 'string')
      throw new FlowConfigError(NAME, 'allowed', 'true, false or a text', allowed);
    const { key, appliesTo } = answerOptions(options);
    const asked = [...this.#asked.values()].filter((one) => key === undefined || one.key === key);
    return asked.some(({ turn }) => turn?.answer(callId, allowed, appliesTo));
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
    if (typeof reduce === 'function') return conversation.store(reduce as never, initial, paceOption(pace, 'pace', 'an object of options'));
    return conversation.paced(paceOption(reduce, 'reduce', 'a function, or an object of options'));
  }

  snapshot(): AgentTurnsSnapshot {
    let pending = 0;
    for (const { turn } of this.#asked.values()) pending += turn?.pending ?? 0;
    const conversations = this.#conversations.size;
    return { running: this.#asked.size, pending, conversations, guesses: this.guesses?.size ?? 0, ...this.#counts };
  }

  // ---- what happens in conversations --------------------------------------------------------------------------------

  told(turn: AgentTurn, conversation: Conversation, news: TurnNews): void {
    // Of what was accepted; who left is of no account.
    if (news.type === 'finished' || news.type === 'failed') this.shutdown.count('done');
    else if (news.type === 'cancelled' && news.reason === 'closed') this.shutdown.count('aborted');
    const asked = this.#asked.get(turn.number);
    this.#tell({ turnId: turn.turnId, key: turn.key, step: turn.step, ...news }, conversation, asked?.subscriber);
    if (!isEnd(news) || !asked) return;
    this.#asked.delete(asked.number);
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

  /** A turn for each subscriber; without an intent it goes on. */
  #turn({ key, signal, context }: ReturnType<typeof askOptions>, intent: UserContent | undefined): Observable<TurnEvent> {
    return new Observable((subscriber) => {
      const number = ++this.#turns;
      const asked: Asked = { number, key, context, intent, subscriber, turn: undefined };
      try {
        this.#conversation(key);
      } catch (error) {
        this.#refuse(asked, { type: 'failed', error, ...NOTHING_DONE });
        return;
      }
      if (signal?.aborted === true) {
        this.#refuse(asked, { type: 'cancelled', reason: 'aborted', ...NOTHING_DONE });
        return;
      }
      if (this.shutdown.isClosed) {
        this.#refuse(asked, { type: 'failed', error: new ClosedError(NAME), ...NOTHING_DONE });
        return;
      }
      // A listener that heard of it may have made the asker leave.
      if (subscriber.closed) return;
      this.#asked.set(number, asked);
      subscriber.add(() => {
        this.#cancel(asked, 'left');
      });
      this.#intents.next(asked);
      if (signal && this.#asked.has(asked.number)) {
        this.#signals.stop(signal, subscriber, () => {
          this.#cancel(asked, 'aborted');
        });
      }
    });
  }

  /** The newest of its conversation. */
  #begin(asked: Asked): Observable<never> {
    const { number, key, context, intent } = asked;
    if (!this.#asked.has(asked.number)) return EMPTY;
    let conversation: Conversation;
    try {
      conversation = this.#conversation(key);
    } catch (error) {
      this.#refuse(asked, { type: 'failed', error, ...NOTHING_DONE });
      return EMPTY;
    }
    // The history that was asked for may have ended it.
    if (!this.#asked.has(asked.number)) return EMPTY;
    const message = intent === undefined ? undefined : ({ role: 'user', content: intent } as const);
    const turn = new AgentTurn(conversation, this.#settings, number, context, message);
    asked.turn = turn;
    return turn.lived(() => {
      conversation.begin(turn, intent === undefined);
    });
  }

  #cancel(asked: Asked, reason: CancelReason): void {
    if (asked.turn) asked.turn.cancel(reason);
    else if (this.#asked.has(asked.number)) this.#refuse(asked, { type: 'cancelled', reason, ...NOTHING_DONE });
  }

  /** It is over before it began. */
  #refuse(asked: Asked, news: TurnNews): void {
    const { number, key, subscriber } = asked;
    const wasAccepted = this.#asked.delete(asked.number);
    if (wasAccepted && news.type === 'cancelled' && news.reason === 'closed') this.shutdown.count('aborted');
    this.#tell({ turnId: turnIdOf(number), key, step: 0, ...news }, this.#conversations.get(key), subscriber);
    if (wasAccepted) this.#checkDrained();
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
    if (!this.shutdown.isClosed || this.#asked.size > 0 || !this.shutdown.finish()) return;
    this.guesses?.dropAll();
    this.#later(() => {
      for (const conversation of this.#conversations.values()) conversation.end();
      this.#events.complete();
    });
  }
}

/** A question, or a wish to go on. */
interface Asked {
  readonly number: number;
  readonly key: string;
  readonly context: unknown;
  readonly intent: UserContent | undefined;
  readonly subscriber: Subscriber<TurnEvent>;
  /** Once it is the newest of its conversation. */
  turn: AgentTurn | undefined;
}

type EndEvent = Extract<TurnEvent, { type: 'finished' | 'cancelled' | 'failed' }>;

const NOTHING_DONE = { kept: [], wasted: { chunks: 0, estimatedTokens: 0 }, usage: { inputTokens: 0, outputTokens: 0 } } as const;

function isEnd<N extends TurnNews>(news: N): news is Extract<N, { type: 'finished' | 'cancelled' | 'failed' }> {
  return news.type === 'finished' || news.type === 'cancelled' || news.type === 'failed';
}
