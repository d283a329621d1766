import { evidenceOf } from '../../operators/build.js';
import type { ErrorClass, PolicyContext, ResponseLike, Usage } from '../../operators/index.js';
import type { CallRecord, CallStatus } from '../metrics/call-record.js';
import { errorCodeOf } from '../metrics/error-code.js';
import type { Reservation } from '../pipelines/budget/budget-types.js';
import { wasFree } from '../pipelines/budget/was-free.js';
import type { ExpectedOutput } from './expected-output.js';
import type { OutputCharging, SentCall } from './output-charging.js';
import { remainingOutput } from './output-charging.js';
import type { ProviderRules, RequestTokens, TokenUnits } from './providers.js';
import { unitsAfter, unitsWithoutAnswer } from './providers.js';
import { mostOf } from './read-usage.js';

/** The ledger that an entry is in. */
export interface EntryBook {
  readonly expected: ExpectedOutput;
  readonly charging: OutputCharging;
  /** Whether anything reads the records. */
  readonly isRead: boolean;
  tell(note: { readonly type: 'chargedOnArrival'; readonly model: string }): void;
  record(record: CallRecord): void;
}

/** What is known of a call before it is made. */
export interface CallFacts {
  /** What records call it: the name of a property, of an adapter. */
  readonly name: string;
  readonly model: string;
  readonly lane: string;
  readonly key: unknown;
  readonly provider: ProviderRules;
  readonly tokens: RequestTokens;
  /** What its permit was charged with. */
  readonly charged: TokenUnits;
  /** Estimates the charge anew when the call is sent, which may be long after it asked for its permit. @defaultValue `charged` */
  readonly estimate?: () => TokenUnits;
  /** A budget pays nothing for what is refused, also as invalid: no filter has read it. */
  readonly refusalsAreFree?: boolean;
}

/** Facts of a call whose permit was granted for less than its estimate, because rates bound what one job is charged: that is its charge until its usage is known. */
export function asGranted(facts: CallFacts, lease: PolicyContext['lease']): CallFacts {
  const { charged } = facts;
  const paid = (unit: keyof TokenUnits): number => Math.min(charged[unit], lease?.boundedTo?.(unit) ?? Infinity);
  const granted: TokenUnits = { inputTokens: paid('inputTokens'), outputTokens: paid('outputTokens'), tokens: paid('tokens') };
  if (isSame(granted, charged)) return facts;
  return { ...facts, charged: granted, estimate: () => granted };
}

/** One attempt of it. */
export interface AttemptFacts {
  readonly traceId: string;
  readonly spanId: string;
  readonly attempt: number;
  /** Wait for the permit, in ms. */
  readonly queuedMs: number;
}

/** What of an answer has come so far. */
export interface Progress {
  readonly usage: Usage | undefined;
  /** Tokens of output by now, estimated. */
  readonly outputTokens: number;
}

/** How an attempt ended. */
export interface EntryEnd {
  readonly status: CallStatus;
  readonly errorCode: string | null;
}

/** The end of an attempt that failed, by what its error is. */
export function endOf(error: unknown, errorClass: ErrorClass): EntryEnd {
  const status = errorClass === 'timeout' || errorClass === 'cancelled' ? errorClass : 'error';
  return { status, errorCode: errorCodeOf(error, errorClass) };
}

/** Refused before a model has read anything, or because of what it read. */
const REFUSED: ReadonlySet<number | undefined> = new Set([400, 401, 402, 403, 404, 405, 413, 422, 429]);

const ANSWERED: EntryEnd = { status: 'success', errorCode: null };
const LEFT: EntryEnd = { status: 'cancelled', errorCode: 'CANCELLED' };

/**
 * One attempt in the ledger of an account: what it reserves of the budget, what it is charged in the end, and its record. The rates and the budget
 * differ in one thing: for what is not known a rate takes what was seen, since it must not be stopped by tokens that were never spent; a budget keeps the
 * most that it can have been.
 */
export class Entry {
  readonly #ledger: EntryBook;
  readonly #facts: CallFacts;
  readonly #attempt: AttemptFacts;
  readonly #settle: (usage: Usage) => void;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #reservation: Reservation | undefined;
  /** By what was known when it was sent. */
  readonly #charged: TokenUnits;
  /** For finding out how the provider charges output. */
  readonly #sent: SentCall | undefined;
  #usage: Usage | undefined;
  /** Output tokens of the pieces that have come, estimated. */
  #seen = 0;
  /** Something of an answer has come. */
  #hasBegun = false;
  #isOver = false;
  #wasSent = true;
  #progress: Progress | undefined;

  /** @param reservation - what the budget was charged with, where there is one */
  constructor(
    ledger: EntryBook,
    facts: CallFacts,
    attempt: AttemptFacts,
    settle: (usage: Usage) => void,
    now: () => number,
    reservation: Reservation | undefined,
  ) {
    this.#ledger = ledger;
    this.#facts = facts;
    this.#attempt = attempt;
    this.#settle = settle;
    this.#now = now;
    this.#startedAt = now();
    this.#reservation = reservation;
    const { model, tokens } = facts;
    const { maxOutputTokens: outputTokens = 0 } = tokens;
    this.#charged = facts.estimate?.() ?? facts.charged;
    if (!isSame(this.#charged, facts.charged)) this.#pay(this.#charged);
    if (outputTokens === 0 || facts.provider.outputCharged === 'onArrival') return;
    this.#sent = { sentAt: this.#startedAt, maxOutputTokens: outputTokens, endedAt: Infinity };
    ledger.charging.sent(model, this.#sent);
  }

  /** A response has come: its headers may show that the provider charges output on arrival. */
  observe(response: ResponseLike): void {
    const remaining = this.#sent && remainingOutput(response);
    if (remaining === undefined) return;
    const { model } = this.#facts;
    if (this.#ledger.charging.told(model, this.#sent as SentCall, remaining)) this.#ledger.tell({ type: 'chargedOnArrival', model });
  }

  /** A budget was asked, whose listeners may have ended the call. */
  get isReserved(): boolean {
    return this.#reservation !== undefined;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** What the answer has said so far of its tokens; also when it is over. */
  report(told: Usage | undefined): void {
    const usage = mostOf(this.#usage, told);
    if (told === undefined || usage === undefined || Object.keys(usage).length === 0 || !this.#wasSent) return;
    this.#usage = usage;
    this.#hasBegun = true;
    const { provider } = this.#facts;
    const charged = this.#charged;
    if (this.#isOver) {
      this.#pay(unitsAfter(provider, usage, charged));
      this.#reservation?.settle(usage);
    } else {
      // Output may still grow, so what is expected of it stays charged until the end.
      const outputTokens = Math.max(usage.outputTokens ?? 0, charged.outputTokens);
      this.#pay(unitsAfter(provider, { ...usage, outputTokens }, charged));
    }
  }

  /** More of the answer has come: so many tokens of output by now. */
  saw(outputTokens: number): void {
    this.#hasBegun = true;
    this.#seen = Math.max(this.#seen, outputTokens);
  }

  /** An answer has begun that can be asked how far it is. */
  follow(progress: Progress): void {
    this.#hasBegun = true;
    this.#progress = progress;
  }

  /** The answer is here to its end, with this usage if it says any; `end` says otherwise where nothing could be made of it. */
  answered(end: EntryEnd = ANSWERED, usage?: Usage): void {
    if (this.#isOver) return;
    this.#look();
    this.#usage = mostOf(this.#usage, usage);
    const { provider, model } = this.#facts;
    const outputTokens = this.#usage?.outputTokens ?? (this.#seen > 0 ? this.#seen : undefined);
    // An answer that says nothing costs what was expected.
    if (this.#usage !== undefined || outputTokens !== undefined)
      this.#pay(unitsAfter(provider, { ...this.#usage, ...(outputTokens !== undefined && { outputTokens }) }, this.#charged));
    if (outputTokens !== undefined) this.#ledger.expected.learn(model, outputTokens);
    this.#reservation?.settle(this.#usage);
    this.#over(end, this.#usage === undefined);
  }

  /** It failed by itself. */
  failed(error: unknown, found: EntryEnd | ErrorClass): void {
    if (this.#isOver) return;
    const end = typeof found === 'string' ? endOf(error, found) : found;
    this.#look();
    const { provider, refusalsAreFree = false } = this.#facts;
    const status = statusOf(error);
    // What never arrived has cost no more than what was refused.
    const isRefused = status === undefined ? wasFree(error) : REFUSED.has(status);
    if (this.#hasBegun) this.#payForPart();
    else this.#pay(unitsWithoutAnswer(provider, isRefused ? 'refused' : 'failed', this.#charged));
    if (!this.#hasBegun && (wasFree(error) || (isRefused && refusalsAreFree))) this.#reservation?.release();
    else this.#reservation?.settle(this.#reported());
    this.#over(end, !isRefused);
  }

  /** The same, by what its error is. */
  failedAs(error: unknown, errorClass: ErrorClass): void {
    this.failed(error, endOf(error, errorClass));
  }

  /** Its reader has left, or it was cut off: by its deadline, its signal, its time limit. */
  left(end: EntryEnd = LEFT): void {
    if (this.#isOver) return;
    this.#look();
    this.#payForPart();
    this.#reservation?.settle(this.#reported());
    this.#over(end, true);
  }

  /** It was never sent, and costs nothing. */
  unsent(end: EntryEnd = LEFT): void {
    if (this.#isOver) return;
    this.#wasSent = false;
    this.#pay(NOTHING);
    this.#reservation?.release();
    this.#over(end, false);
  }

  /** There was no attempt after all: no record of it. */
  withdraw(): void {
    this.#isOver = true;
    this.#wasSent = false;
    this.#reservation?.release();
  }

  #look(): void {
    if (this.#progress === undefined) return;
    this.#usage = mostOf(this.#usage, this.#progress.usage);
    this.#seen = Math.max(this.#seen, this.#progress.outputTokens);
  }

  /** What is sure of an answer that is not whole: its first usage tells the input, and output may have been generated that was never seen. */
  #reported(): Usage {
    const { outputTokens: _, ...usage } = this.#usage ?? {};
    return usage;
  }

  /** What has come of an answer that is not whole. */
  #payForPart(): void {
    const outputTokens = Math.max(this.#usage?.outputTokens ?? 0, this.#seen);
    this.#pay(unitsAfter(this.#facts.provider, { ...this.#usage, outputTokens }, this.#charged));
  }

  #pay({ tokens, inputTokens, outputTokens }: TokenUnits): void {
    this.#settle({ ...this.#usage, units: { tokens, inputTokens, outputTokens } });
  }

  #over(end: EntryEnd, isEstimated: boolean): void {
    this.#isOver = true;
    if (this.#sent) {
      this.#sent.endedAt = this.#now();
      const outputTokens = Math.max(this.#usage?.outputTokens ?? 0, this.#seen);
      if (end.status === 'success') this.#sent.outputTokens = outputTokens;
    }
    if (!this.#ledger.isRead) return;
    const { status, errorCode } = end;
    const { name, lane, key, model } = this.#facts;
    const usage = this.#usage;
    const { costUsd } = this.#reservation ?? {};
    this.#ledger.record({
      ...this.#attempt,
      ...{ name, lane, key: typeof key === 'string' || typeof key === 'number' ? String(key) : null, model },
      ...{ latencyMs: this.#now() - this.#startedAt, status, errorCode },
      promptTokens: usage?.inputTokens ?? null,
      cacheReadTokens: usage?.cacheReadTokens ?? null,
      cacheWriteTokens: usage === undefined ? null : (usage.cacheWriteTokens ?? 0) + (usage.cacheWrite1hTokens ?? 0),
      completionTokens: usage?.outputTokens ?? null,
      reasoningTokens: usage?.reasoningTokens ?? null,
      costUsd: costUsd ?? null,
      isEstimated,
    });
  }
}

const NOTHING: TokenUnits = { inputTokens: 0, outputTokens: 0, tokens: 0 };

function isSame(one: TokenUnits, other: TokenUnits): boolean {
  return one.tokens === other.tokens && one.inputTokens === other.inputTokens && one.outputTokens === other.outputTokens;
}

function statusOf(error: unknown): number | undefined {
  return evidenceOf(error)
    .map(({ status }) => status)
    .find((status) => status !== undefined);
}
