import type { CloseRule, OpenRule } from './kernel/limits/circuit.js';
import { FailureShare, FailuresInARow, ProbeShare } from './kernel/limits/circuit.js';
import { FlowConfigError } from './options/errors.js';
import { checked, count, positive, ratio } from './options/options.js';

export type { CloseRule, OpenRule } from './kernel/limits/circuit.js';

export interface FailureShareOptions {
  /** Share of failed calls at which it opens, 0 to 1. @defaultValue 0.5 */
  readonly share?: number;
  /** Calls that must have ended within `windowMs` before it may open. @defaultValue 10 */
  readonly minCalls?: number;
  /** How far back results count, in ms; they are forgotten a tenth of it at a time. @defaultValue 30000 */
  readonly windowMs?: number;
}

/**
 * A breaker opens when a share of the calls has failed lately: a value for the option `opens`, and its default.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createBreaker, failureShare } from 'sluice/operators';
 *
 * const breaker = createBreaker({ opens: failureShare({ share: 0.5, minCalls: 20 }) });
 * breaker.state; // => 'closed'
 * ```
 */
export function failureShare(options: FailureShareOptions = {}): OpenRule {
  const defaults = { share: 0.5, minCalls: 10, windowMs: 30_000 };
  const { share, minCalls, windowMs } = checked('failureShare', options, defaults, { share: ratio, minCalls: count, windowMs: positive });
  return new FailureShare(share, minCalls, windowMs);
}

/**
 * A breaker opens when so many calls one after the other have failed, however long that took: a value for the option `opens`.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `failures` is out of range.
 * @example
 * ```ts
 * import { createBreaker, failuresInARow } from 'sluice/operators';
 *
 * const breaker = createBreaker({ opens: failuresInARow(5) });
 * breaker.state; // => 'closed'
 * ```
 */
export function failuresInARow(failures: number): OpenRule {
  return new FailuresInARow(finiteCount('failuresInARow', 'failures', failures));
}

export interface ProbeShareOptions {
  /** Calls let through at a time to probe the backend. @defaultValue 1 */
  readonly probes?: number;
  /** Share of them that must succeed before it closes, 0 to 1; at least one must. @defaultValue 1 */
  readonly share?: number;
}

/**
 * A half-open breaker closes when a share of its probes has succeeded, and opens again as soon as that cannot be any more: a value for the option
 * `closes`, and its default.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createBreaker, probeShare } from 'sluice/operators';
 *
 * const breaker = createBreaker({ closes: probeShare({ probes: 4, share: 0.75 }) });
 * breaker.state; // => 'closed'
 * ```
 */
export function probeShare(options: ProbeShareOptions = {}): CloseRule {
  const { probes, share } = checked('probeShare', options, { probes: 1, share: 1 }, { probes: finiteCount, share: ratio });
  return new ProbeShare(probes, share);
}

/** With no bound it would never open, or close. */
function finiteCount(operator: string, option: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number;
  throw new FlowConfigError(operator, option, 'a whole number >= 1', value);
}
