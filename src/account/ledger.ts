import { isObservable, Subject } from 'rxjs';
import { check } from '../../operators/build.js';
import type { FlowEvent, Limiter, PolicyContext } from '../../operators/index.js';
import { childOf, fromHeaders } from '../../operators/index.js';
import type { CallRecord } from '../metrics/call-record.js';
import { budgetOption } from '../pipelines/budget/budget-options.js';
import type { BudgetCall, BudgetPort, Reservation } from '../pipelines/budget/budget-types.js';
import { after, bothOf, type Reserving, reservationOf } from '../pipelines/budget/reserving.js';
import type { AttemptFacts, CallFacts, EntryBook } from './entry.js';
import { asGranted, Entry } from './entry.js';
import { ExpectedOutput } from './expected-output.js';
import { OutputCharging } from './output-charging.js';
import type { ProviderRules, RequestTokens, TokenUnits } from './providers.js';
import { providerOption, providers, unitsBefore } from './providers.js';

/** What clients report to an account about their calls. */
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

/** The options of a ledger, checked. @throws FlowConfigError */
export function ledgerOptions(operator: string, { budget, onRecord, provider }: LedgerOptions): LedgerOptions {
  return {
    budget: budgetOption(operator, 'budget', budget),
    onRecord: check.callback(operator, 'onRecord', onRecord),
    provider: providerOption(operator, 'provider', provider),
  };
}

/** Where a limiter has its ledger, also for another copy of this package. */
const LEDGER = /* @__PURE__ */ Symbol.for('sluice.ledger');

interface Kept {
  readonly parent?: object;
  /** Tells its listeners. */
  readonly tell?: ((note: object) => void) | undefined;
  [LEDGER]?: Ledger;
}

/** What an account records: what each caller spent, and statistics of its models' answers. All clients of the account share it. */
export class Ledger implements EntryBook {
  readonly expected: ExpectedOutput;
  readonly charging: OutputCharging;
  readonly provider: ProviderRules | undefined;
  readonly #above: Ledger | undefined;
  readonly #budget: BudgetPort | undefined;
  /** Whether there is a budget, here or above. */
  readonly #hasBudget: boolean;
  readonly #reserved: ReadonlyMap<string, number> | undefined;
  readonly #records = new Subject<CallRecord>();
  /** Whose ledger it is. */
  #owner: Kept | undefined;

  constructor({ budget, onRecord, provider, reserved }: LedgerOptions = {}, above?: Ledger) {
    this.#above = above;
    this.#budget = budget;
    this.#hasBudget = budget !== undefined || (above !== undefined && above.#hasBudget);
    this.#reserved = reserved ?? (above && above.#reserved);
    this.expected = above?.expected ?? new ExpectedOutput();
    this.charging = above?.charging ?? new OutputCharging();
    this.provider = provider ?? above?.provider;
    if (onRecord) this.watch(onRecord);
  }

  /** The same ledger for one of its users, with a budget and a log of its own. */
  with(options: LedgerOptions): Ledger {
    return new Ledger(options, this);
  }

  /** What the provider of a call counts: as an option of the call says, else as this account, its API, or most providers do. */
  rulesFor(own: ProviderRules | undefined, api: ProviderRules | undefined): ProviderRules {
    return own ?? this.provider ?? api ?? providers.other;
  }

  /** The same for a pipeline with options of its own. `known` are the rules of its client. @throws FlowConfigError */
  forPipeline(operator: string, options: LedgerOptions, known: ProviderRules | undefined): Ledger {
    const { provider = this.provider ?? known ?? providers.other, ...rest } = ledgerOptions(operator, options);
    return this.with({ ...rest, provider });
  }

  /** A part of its limiter for a pipeline: so many slots, and no more. */
  part(limiter: Limiter, concurrency: number): Limiter {
    return childOf(limiter, { concurrency, learn: fromHeaders() });
  }

  /** What is known of a call before it is made. */
  factsOf(call: Pick<CallFacts, 'name' | 'model' | 'lane' | 'key' | 'tokens'>): CallFacts {
    const { model, tokens } = call;
    const provider = this.provider ?? providers.other;
    const estimate = (): TokenUnits => this.estimate(provider, model, tokens);
    return { ...call, provider, charged: estimate(), estimate };
  }

  /**
   * Charges an attempt that is about to be sent to the budget; undefined without one.
   *
   * @param refused - called when there is no room, now or later
   * @throws BudgetExceededError, or what else the budget refuses it with
   */
  reserveFor({ key, lane, model, tokens }: CallFacts, refused: () => void): Reserving | undefined {
    if (!this.#hasBudget) return undefined;
    const { maxOutputTokens: outputTokens, ...prompt } = tokens;
    try {
      const reserving = this.reserve({ model, key, ...prompt, ...(outputTokens !== undefined && { outputTokens }) }, lane);
      return isObservable(reserving) ? after(reserving, (reservation) => reservation, refused) : reserving;
    } catch (error) {
      refused();
      throw error;
    }
  }

  /** Writes down an attempt that is about to be sent, with what the budget was charged. */
  enter(
    facts: CallFacts,
    attempt: AttemptFacts,
    { lease, settle }: Pick<PolicyContext, 'lease' | 'settle'>,
    now: () => number,
    reservation: Reservation | undefined,
  ): Entry {
    return new Entry(this, asGranted(facts, lease), attempt, settle, now, reservation);
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

  /**
   * Charges a call of this lane to the budget; undefined without one. One that is shared answers later.
   *
   * @throws BudgetExceededError, or what else the budget refuses it with
   */
  reserve(call: BudgetCall, lane: string): Reserving | undefined {
    const above = this.#above?.reserve(call, lane);
    const budget = this.#above?.spends(this.#budget) === true ? undefined : this.#budget;
    if (budget === undefined) return above;
    const reserved = this.#reserved?.get(lane);
    const asked = reserved === undefined ? call : { ...call, reserved };
    return above === undefined ? reservationOf(budget, asked) : bothOf(above, () => reservationOf(budget, asked));
  }

  /** Whether a budget is charged here already, or above: the same one given twice is charged once. */
  spends(budget: BudgetPort | undefined): boolean {
    return budget !== undefined && (this.#budget === budget || this.#above?.spends(budget) === true);
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

/** Gives a limiter a ledger. @throws FlowConfigError when it has one */
export function keepLedger(limiter: object, options: LedgerOptions): Ledger {
  if ((limiter as Kept)[LEDGER] !== undefined)
    throw check.misused('createAccount', 'limiter', 'this limiter has a ledger already', 'Use that account.');
  return define(limiter, new Ledger(options));
}

/** The ledger of a limiter, or of the nearest one above it; undefined where there is none. */
export function keptLedger(limiter: object | undefined): Ledger | undefined {
  for (let at = limiter as Kept | undefined; at !== undefined; at = at.parent as Kept | undefined)
    if (at[LEDGER] !== undefined) return at[LEDGER];
  return undefined;
}

/** The same; the topmost limiter gets one where there is none. Without a limiter a new one. */
export function ledgerOf(limiter: object | undefined): Ledger {
  // What is no limiter is for its own check to refuse.
  if (!Object.isExtensible(limiter)) return new Ledger();
  let top = limiter as Kept;
  while (top.parent !== undefined) top = top.parent;
  return keptLedger(limiter) ?? define(top, new Ledger());
}

function define(limiter: object, ledger: Ledger): Ledger {
  Object.defineProperty(limiter, LEDGER, { value: ledger.belongsTo(limiter) });
  return ledger;
}
