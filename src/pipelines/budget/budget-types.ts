import type { Observable, SchedulerLike } from 'rxjs';
import type { CreditStore, FlowSink, Usage } from '../../../operators/index.js';

/** What a call is about to take. */
export interface BudgetCall {
  /** Finds its price and the limits of that model; of a tool, its name. */
  readonly model: string;
  /** Whose it is, for the limits of that key. @defaultValue none */
  readonly key?: unknown;
  /** Tokens of the prompt, as estimated; those below are part of them. @defaultValue 0 */
  readonly inputTokens?: number;
  /** Read from the provider's prompt cache. @defaultValue 0 */
  readonly cacheReadTokens?: number;
  /** Written to it. @defaultValue 0, and all of the prompt for a model whose calls have written to it before */
  readonly cacheWriteTokens?: number;
  /** Written to it for an hour. @defaultValue 0 */
  readonly cacheWrite1hTokens?: number;
  /** Most tokens of the answer. @defaultValue `maxOutputTokens` of the model's price, else 0 */
  readonly outputTokens?: number;
  /** Tokens beside those, of which it is not known whether prompt or answer has them: charged at the dearer price. @defaultValue 0 */
  readonly tokens?: number;
  /**
   * Share of each limit that this call leaves to more urgent ones, 0 to 1; of a limit with a window, that share of what is left of the window's time.
   * An account gives the `reserve` of the lanes above here. @defaultValue 0
   */
  readonly reserved?: number;
}

/**
 * What one call may spend. Both methods may be called again without harm.
 * @stable
 */
export interface Reservation {
  /** What it is charged with, in USD; undefined without a price. For records. */
  readonly costUsd?: number | undefined;
  /**
   * The call was sent and is over. What the usage says takes the place of the estimate; what it does not say stays as estimated. A usage that becomes
   * known later corrects what was charged.
   */
  settle(usage?: Usage): void;
  /** The call was never sent: it has cost nothing. Without effect after `settle`. */
  release(): void;
}

/** What calls are charged to: `createBudget` makes one; anything with this method can stand in for it. */
export interface BudgetPort {
  /**
   * Lets one call go, and charges its estimate in the same step. Throw `BudgetExceededError`, or whatever the call is to fail with, to stop it. One that has to
   * ask elsewhere answers with an Observable, which emits the reservation once; when it is unsubscribed before that, it charges nothing.
   */
  reserve(call: BudgetCall): Reservation | Observable<Reservation>;
}

/** What a model costs, in USD. */
export interface ModelPrice {
  /** Of a million tokens of prompts. @defaultValue 0 */
  readonly inputUsdPerMillion?: number;
  /** Of a million tokens read from the provider's prompt cache. @defaultValue `inputUsdPerMillion` */
  readonly cacheReadUsdPerMillion?: number;
  /** Of a million tokens written to it. @defaultValue twice `inputUsdPerMillion` */
  readonly cacheWriteUsdPerMillion?: number;
  /** Of a million tokens written to it for an hour. @defaultValue the larger of `cacheWriteUsdPerMillion` and twice `inputUsdPerMillion` */
  readonly cacheWrite1hUsdPerMillion?: number;
  /** Of a million tokens of answers. @defaultValue 0 */
  readonly outputUsdPerMillion?: number;
  /** Of each call, whatever its tokens. @defaultValue 0 */
  readonly usdPerCall?: number;
  /** Tokens of the longest answer that the model gives: what a call is charged with beforehand that does not bound its answer. @defaultValue 0 */
  readonly maxOutputTokens?: number;
}

/**
 * Prices by the names of models. Plain data.
 * @stable
 */
export type ModelPrices = Readonly<Record<string, ModelPrice>>;

/**
 * What may be spent, on the calls that it is about: in USD or in tokens.
 * @stable
 */
export interface BudgetLimit {
  /** Only calls of this key. @defaultValue calls of all keys, and of none */
  readonly key?: string;
  /** Only calls of this model. @defaultValue calls of all models */
  readonly model?: string;
  /** Most USD. Either this or `tokens`. */
  readonly usd?: number;
  /** Most tokens, of prompts and answers together. Either this or `usd`. */
  readonly tokens?: number;
  /** How long it lasts from its first call on, in ms; then it begins anew with the next one. @defaultValue Infinity: it never does */
  readonly windowMs?: number;
}

/** A limit at one moment. Amounts are in USD or in tokens, as `unit` says. */
export interface BudgetLimitSnapshot {
  readonly key: string | undefined;
  readonly model: string | undefined;
  readonly unit: 'usd' | 'tokens';
  readonly windowMs: number;
  readonly limit: number;
  /** By calls that are over: their cost, or their estimates where the cost is unknown. */
  readonly spent: number;
  /** By calls under way, as estimated. */
  readonly inFlight: number;
  /** What another call may cost. */
  readonly left: number;
  /** When the window ends, on the scheduler's clock; Infinity when it never does, or has not begun. */
  readonly resetsAt: number;
}

/**
 * What a budget remembers between two processes: plain data. What was under way counts as spent.
 * @stable
 */
export interface SavedBudget {
  readonly limits: readonly {
    readonly key?: string;
    readonly model?: string;
    readonly unit: 'usd' | 'tokens';
    /** Left out when it is Infinity. */
    readonly windowMs?: number;
    /** Beginning of the window, on the scheduler's clock. */
    readonly startedAt: number;
    /** Tokens, or billionths of a USD: a whole number. */
    readonly charged: number;
  }[];
}

/**
 * Where a budget is kept for the next process. Both methods are synchronous: a call is let go when `save` has returned, and what was reserved then
 * is still charged after a crash.
 * @stable
 */
export interface BudgetStorage {
  /** What was saved last, or undefined. Asked once, when the budget is made. */
  load(): SavedBudget | undefined;
  /** Takes the place of what was saved before. When it throws, or answers a promise, the call fails, unsent. */
  save(saved: SavedBudget): void;
}

/** @stable */
export interface BudgetOptions {
  /** All of those that are about a call have to have room for it. @defaultValue none: what is spent is only counted */
  readonly limits?: readonly BudgetLimit[];
  /** What models cost. With a limit in USD, a call of a model without a price is refused. @defaultValue none */
  readonly prices?: ModelPrices;
  /**
   * Whether a call without room is refused. With `false` all calls go, what they cost is counted, and `budgetLow` and `budgetOverrun` tell what would
   * have been refused: for trying out a limit. The `enforce` of an account is about its rates and slots. @defaultValue true
   */
  readonly enforce?: boolean;
  /** Part of a limit at which `budgetLow` is emitted, 0 to 1. @defaultValue 0.8 */
  readonly warnAt?: number;
  /**
   * Told `budgetLow` once in each window of a limit: when `warnAt` of it is spent, or at the first call that finds no room; and `budgetOverrun` when
   * calls have cost more than estimated and than the limit. @defaultValue none
   */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number */
  readonly name?: string;
  /** Keeps what is spent beyond the end of the process. @defaultValue none */
  readonly storage?: BudgetStorage;
  /** Its clock. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/**
 * Options of a budget that processes share. It is always enforced, and its store keeps what is spent.
 * @beta
 */
export interface SharedBudgetOptions extends Omit<BudgetOptions, 'enforce' | 'storage'> {
  /** Where the limits are kept: `localStore(…)`, `redisStore(…)`, or a `CreditStore` of your own. */
  readonly store: CreditStore;
  /** Budgets of one store spend together when they name the same, in whatever process. Events call it so, as `instance`. @defaultValue 'budget' */
  readonly name?: string;
}

/**
 * Numbers of one moment. The sums are of all calls since the budget was made, whatever the windows; USD are those of models with a price.
 * @stable
 */
export interface BudgetSnapshot {
  /** Calls under way. */
  readonly executing: number;
  /** By calls that are over. */
  readonly spentUsd: number;
  readonly spentTokens: number;
  /** By calls under way, as estimated. */
  readonly inFlightUsd: number;
  readonly inFlightTokens: number;
  /** In the order of the options. */
  readonly limits: readonly BudgetLimitSnapshot[];
}

/** @stable */
export interface Budget extends BudgetPort {
  reserve(call: BudgetCall): Reservation;
  snapshot(): BudgetSnapshot;
}

/**
 * A budget that processes share.
 * @beta
 */
export interface SharedBudget extends BudgetPort {
  /**
   * Asks the store at each subscription, and emits the reservation when it has answered; waits while the store is down. Fails with `BudgetExceededError` when
   * there is no room, in whatever process it was spent.
   */
  reserve(call: BudgetCall): Observable<Reservation>;
  /** What calls of this process have spent; of each limit, `left` is what the store had left when it was asked last. */
  snapshot(): BudgetSnapshot;
}
