import { headerReader } from '../../operators/build.js';
import type { ResponseLike } from '../../operators/index.js';

/** What is left of the output limit, as reported by Anthropic and compatible servers. */
const REMAINING = 'anthropic-ratelimit-output-tokens-remaining';
/** It is reported in thousands. */
const ROUNDING = 1000;
/** A fall is looked for in calls whose `max_tokens` stands out from the rounding. */
const LEAST = 2 * ROUNDING;
/** Tokens that an answer grows by in a ms at most. */
const FASTEST = 0.2;
/** Two requests reach the provider at most so much further apart than they were sent. */
const JITTER_MS = 500;
/** Falls in a row that show how output is charged. */
const ENOUGH = 2;
/** Most calls of a model that are remembered. */
const MOST_CALLS = 200;
/** Most models that are remembered. */
const MOST_MODELS = 100;

/** One request that was sent. */
export interface SentCall {
  readonly sentAt: number;
  readonly maxOutputTokens: number;
  /** Output in all, once it is known. */
  outputTokens?: number;
  /** Infinity while it is under way. */
  endedAt: number;
  /** What was left of the limit when it reached the provider, as its response says. */
  remaining?: number;
}

interface Seen {
  /** In the order in which they were sent. */
  readonly calls: SentCall[];
  falls: number;
  isOnArrival: boolean;
}

/** The remaining output in the headers of a response. */
export function remainingOutput({ headers }: ResponseLike): number | undefined {
  const text = headerReader(headers)(REMAINING)?.trim();
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/**
 * What the fall of the remaining output from one request to a later one says: whether `max_tokens` was charged when requests came in. Undefined when it
 * says nothing. `calls` are those that were sent, oldest first.
 *
 * If `max_tokens` is not charged, the fall between two requests is at most the output that was generated between them. A call that runs at that time
 * generates no more than its final output, and no more than a fast model makes in that time. Tokens refilled or returned meanwhile make the fall
 * smaller, so they only hide a charge.
 */
export function chargedOnArrival(calls: readonly SentCall[], told: SentCall): boolean | undefined {
  const at = calls.indexOf(told);
  const before = calls.slice(0, Math.max(0, at)).findLast(({ remaining }) => remaining !== undefined);
  if (told.remaining === undefined || before?.remaining === undefined || told.maxOutputTokens < LEAST) return undefined;
  const fall = before.remaining - told.remaining;
  const grown = (told.sentAt - before.sentAt + JITTER_MS) * FASTEST;
  let generated = 0;
  for (const call of calls) {
    if (call === told || call.sentAt > told.sentAt || call.endedAt < before.sentAt - JITTER_MS) continue;
    generated += Math.min(call.outputTokens ?? call.maxOutputTokens, grown);
  }
  // By about `max_tokens`, beyond all that can have been generated.
  if (fall - ROUNDING >= generated && fall + ROUNDING >= told.maxOutputTokens * 0.75) return true;
  return fall + ROUNDING < told.maxOutputTokens * 0.25 ? false : undefined;
}

/** Finds out by the headers whether a provider that is said to charge output as it is generated charges `max_tokens` on arrival. */
export class OutputCharging {
  readonly #models = new Map<string, Seen>();

  isOnArrival(model: string): boolean {
    return this.#models.get(model)?.isOnArrival === true;
  }

  sent(model: string, call: SentCall): void {
    const seen = this.#models.get(model) ?? { calls: [], falls: 0, isOnArrival: false };
    this.#models.delete(model);
    this.#models.set(model, seen);
    if (this.#models.size > MOST_MODELS) this.#models.delete(this.#models.keys().next().value as string);
    if (seen.isOnArrival) return;
    seen.calls.push(call);
    if (seen.calls.length > MOST_CALLS) seen.calls.shift();
  }

  /** Its response has come. True when it is what shows that output is charged on arrival. */
  told(model: string, call: SentCall, remaining: number): boolean {
    const seen = this.#models.get(model);
    if (seen === undefined || seen.isOnArrival) return false;
    call.remaining = remaining;
    const verdict = chargedOnArrival(seen.calls, call);
    if (verdict !== undefined) seen.falls = verdict ? seen.falls + 1 : 0;
    if (seen.falls < ENOUGH) return false;
    seen.isOnArrival = true;
    seen.calls.length = 0;
    return true;
  }
}
