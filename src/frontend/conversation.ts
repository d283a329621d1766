import type { Store } from '../../operators/index.js';
import type { AgentTurn, TurnHost } from './agent-turn.js';
import type { HeldGuesses } from './held-guesses.js';
import type { OpenHistory, OpenStep } from './open-history.js';
import { idsOf } from './open-history.js';
import { notMade } from './turn-machine.js';
import type { TurnEvent, TurnMessage, TurnNews, TurnStoreOptions, TurnView } from './turn-types.js';
import { emptyView, reduceView } from './turn-view.js';
import type { Reduce } from './view-store.js';
import { ViewStore } from './view-store.js';

/** What a conversation needs of the whole. */
export interface ConversationHost {
  readonly guesses: HeldGuesses | undefined;
  told(turn: AgentTurn, conversation: Conversation, news: TurnNews): void;
  /** Nobody is told anything before all of it is done. */
  together(work: () => void): void;
}

/** A conversation: what was said, the turn under way, and who looks at it. */
export class Conversation implements TurnHost {
  readonly key: string;
  readonly ids: Set<string>;
  readonly view: Store<TurnView>;
  /** What was said before the turn under way, each call with its result. */
  messages: readonly TurnMessage[];
  running: AgentTurn | undefined;
  /** Counts turns; 0 before the first. */
  newest = 0;
  readonly #host: ConversationHost;
  #open: OpenStep | undefined;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- of whatever views
  readonly #views = new Map<Reduce<any>, ViewStore<any>>();
  readonly #paced = new Map<TurnStoreOptions, Store<TurnView>>();
  /** Stores with listeners that keep the turn going. */
  #watching = 0;

  constructor(host: ConversationHost, key: string, { messages, open }: OpenHistory) {
    this.#host = host;
    this.key = key;
    this.messages = messages;
    this.#open = open;
    this.ids = idsOf(open ? [...messages, open.message] : messages);
    // From the beginning: one that is asked for in the middle of a turn has to know how that began.
    this.view = this.store(reduceView, emptyView(messages));
  }

  get guesses(): HeldGuesses | undefined {
    return this.#host.guesses;
  }

  /** What a model takes. */
  get settled(): readonly TurnMessage[] {
    return [...this.messages, ...(this.running?.messages ?? [])];
  }

  /** With the step under way, or the one that a reload came into. */
  get whole(): readonly TurnMessage[] {
    return [...this.settled, ...(this.running?.open ?? (this.#open ? openMessages(this.#open) : []))];
  }

  begin(turn: AgentTurn, isResumed: boolean): void {
    const open = this.#open;
    this.#open = undefined;
    const added = open && !isResumed ? closed(open) : [];
    this.messages = [...this.messages, ...added];
    this.running = turn;
    this.newest = turn.number;
    turn.start(isResumed ? open : undefined, added);
  }

  tell(turn: AgentTurn, news: TurnNews): void {
    this.#host.told(turn, this, news);
  }

  ended(turn: AgentTurn, kept: readonly TurnMessage[], news: () => readonly TurnNews[], stop: () => void): void {
    if (this.running === turn) this.running = undefined;
    this.messages = [...this.messages, ...kept];
    this.#host.together(() => {
      for (const one of news()) this.#host.told(turn, this, one);
      stop();
      this.guesses?.dropUpTo(this.key, turn.number);
    });
  }

  show(event: TurnEvent): void {
    for (const view of this.#views.values()) view.take(event);
  }

  /** The conversation as it is, at a pace. */
  paced(pace: TurnStoreOptions): Store<TurnView> {
    for (const [known, store] of this.#paced) if (areEqual(known, pace)) return store;
    // A function of its own: it is what a view is known by.
    const store = this.store((view: TurnView, event) => reduceView(view, event), this.view.getSnapshot(), pace);
    this.#paced.set(pace, store);
    return store;
  }

  store<V>(reduce: Reduce<V>, initial: V, { stopsTurn = true, ...options }: TurnStoreOptions = {}): Store<V> {
    const known = this.#views.get(reduce);
    if (known) return known as Store<V>;
    const view = new ViewStore(reduce, initial, options, (isWatched) => {
      if (!stopsTurn) return;
      this.#watching += isWatched ? 1 : -1;
      if (this.#watching === 0) this.running?.cancel('left');
    });
    this.#views.set(reduce, view);
    return view;
  }

  end(): void {
    for (const view of this.#views.values()) view.end();
    this.#views.clear();
    this.#paced.clear();
  }
}

function areEqual(one: TurnStoreOptions, other: TurnStoreOptions): boolean {
  const names = Object.keys({ ...one, ...other }) as (keyof TurnStoreOptions)[];
  return names.every((name) => one[name] === other[name]);
}

function openMessages({ message, results }: OpenStep): readonly TurnMessage[] {
  return [message, ...message.toolCalls.flatMap((call, i) => (results[i] ? [answer(call.id, results[i])] : []))];
}

function closed({ message, results }: OpenStep): readonly TurnMessage[] {
  return [message, ...message.toolCalls.map((call, i) => answer(call.id, results[i] ?? notMade(call)))];
}

function answer(toolCallId: string, { name, content, is_error: isError }: ReturnType<typeof notMade>): TurnMessage {
  return { role: 'tool', toolCallId, name, content, isError };
}
