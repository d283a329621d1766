import { Subject } from 'rxjs';
import { FlowConfigError } from '../../operators/errors.js';
import type { FlowEvent } from '../../operators/types.js';
import type { CallRecord } from '../metrics/call-record.js';
import type { BudgetCall, BudgetPort, Reservation } from '../pipelines/budget/budget-types.js';
import { ExpectedOutput } from './expected-output.js';
import { OutputCharging } from './output-charging.js';
import type { ProviderRules, RequestTokens, TokenUnits } from './providers.js';
import { unitsBefore } from './providers.js';

/** What an account is told of the calls made under it. */
export interface LedgerOptions {
  /** What calls may spend; each attempt is charged before it is sent. */
  readonly budget?: BudgetPort | undefined;
  /** One record for each attempt, however it was made. */
  readonly onRecord?: ((record: CallRecord) => void) | undefined;
  /** What the account's rates count, where the adapter or the address do not tell. */
  readonly provider?: ProviderRules | undefined;
  /** By lane, the share of each limit of a budget that the lanes above it keep. */
  readonly reserved?: ReadonlyMap<string, number> | undefined;
}

/** Where a limiter has its ledger, also for another copy of this package. */
const LEDGER = Symbol.for('sluice.ledger');

interface Kept {
  readonly parent?: object;
  /** Tells its listeners. */
  readonly tell?: ((note: object) => void) | undefined;
  [LEDGER]?: Ledger;
}

/** What an account writes down: who spent what, and what answers of its models have been like. All that makes calls under the account shares it. */
export class Ledger {
  readonly expected: ExpectedOutput;
  readonly charging: OutputCharging;
  readonly provider: ProviderRules | undefined;
  readonly #above: Ledger | undefined;
  readonly #budget: BudgetPort | undefined;
  readonly #reserved: ReadonlyMap<string, number> | undefined;
  readonly #records = new Subject<CallRecord>();
  /** Whose ledger it is. */
  #owner: Kept | undefined;

  constructor({ budget, onRecord, provider, reserved }: LedgerOptions = {}, above?: Ledger) {
    this.#above = above;
    this.#budget = budget;
    this.#reserved = reserved ?? (above && above.#reserved);
    this.expected = above?.expected ?? new ExpectedOutput();
    this.charging = above?.charging ?? new OutputCharging();
    this.provider = provider ?? above?.provider;
    if (onRecord) this.watch(onRecord);
  }

  /** The same ledger for one of its users, who has a budget and a log besides. */
  with(options: LedgerOptions): Ledger {
    return new Ledger(options, this);
  }

  /** What a call is charged before it is sent, by what is known of its model now. */
  estimate(rules: ProviderRules, model: string, tokens: RequestTokens): TokenUnits {
    const isOnArrival = rules.outputCharged === 'asGenerated' && this.charging.isOnArrival(model);
    const known = isOnArrival ? ({ ...rules, outputCharged: 'onArrival' } as const) : rules;
    return unitsBefore(known, tokens, this.expected.of(model, tokens.maxOutputTokens));
  }

  /** Tells the listeners of the limiter. */
  tell(note: Omit<Extract<FlowEvent, { type: 'chargedOnArrival' }>, 'operator' | 'at' | 'instance'>): void {
    if (this.#above) this.#above.tell(note);
    else this.#owner?.tell?.(note);
  }

  belongsTo(limiter: object): this {
    this.#owner = limiter;
    return this;
  }

  /** Charges a call of this lane to the budget; undefined without one. @throws BudgetExceededError, or what else the budget refuses it with */
  reserve(call: BudgetCall, lane: string): Reservation | undefined {
    const above = this.#above?.reserve(call, lane);
    try {
      const reserved = this.#reserved?.get(lane);
      const own = this.#budget?.reserve(reserved === undefined ? call : { ...call, reserved });
      return own && above ? both(own, above) : (own ?? above);
    } catch (error) {
      above?.release();
      throw error;
    }
  }

  /** Whether anything reads the records. */
  get isRead(): boolean {
    return this.#records.observed || this.#above?.isRead === true;
  }

  record(record: CallRecord): void {
    this.#records.next(record);
    this.#above?.record(record);
  }

  /** The returned function stops it. What a listener throws is its own fault. */
  watch(listener: (record: CallRecord) => void): () => void {
    // eslint-disable-next-line rxjs-x/no-ignored-error -- it has no end
    const subscription = this.#records.subscribe((record) => {
      try {
        listener(record);
      } catch {
        // Records are for logs: a call does not fail because its log does.
      }
    });
    return () => {
      subscription.unsubscribe();
    };
  }
}

function both(one: Reservation, other: Reservation): Reservation {
  return {
    get costUsd() {
      return one.costUsd ?? other.costUsd;
    },
    settle: (usage) => {
      one.settle(usage);
      other.settle(usage);
    },
    release: () => {
      one.release();
      other.release();
    },
  };
}

/** Gives a limiter a ledger. @throws FlowConfigError when it has one */
export function keepLedger(limiter: object, options: LedgerOptions): Ledger {
  if ((limiter as Kept)[LEDGER] !== undefined) throw new FlowConfigError('createAccount', 'limiter', 'one without a ledger', limiter);
  return define(limiter, new Ledger(options));
}

/** The ledger of a limiter, or of the nearest one above it; the topmost gets one where there is none. Without a limiter a new one. */
export function ledgerOf(limiter: object | undefined): Ledger {
  // What is no limiter is for its own check to refuse.
  if (!Object.isExtensible(limiter)) return new Ledger();
  let top: Kept | undefined;
  for (let at = limiter as Kept | undefined; at !== undefined; at = at.parent as Kept | undefined) {
    if (at[LEDGER] !== undefined) return at[LEDGER];
    top = at;
  }
  return top === undefined ? new Ledger() : define(top, new Ledger());
}

function define(limiter: object, ledger: Ledger): Ledger {
  Object.defineProperty(limiter, LEDGER, { value: ledger.belongsTo(limiter) });
  return ledger;
}
