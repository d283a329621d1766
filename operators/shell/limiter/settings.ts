import type { Charge, RateSpec } from '../../kernel/limits/limit.js';
import { isSameRate, ONE_REQUEST } from '../../kernel/limits/limit.js';
import { ONE_LINE } from '../../kernel/queues/line.js';
import type { GrantQueueRule } from '../../kernel/queues/queue.js';
import { CREATE_LIMITER } from '../../options/defaults.js';
import { FlowConfigError } from '../../options/errors.js';
import { EVENT_CHECKS } from '../../options/events.js';
import { LIMITER_HINTS } from '../../options/hints.js';
import type { Cost, LearnRule, LimiterJob, LimiterOptions, RateRule, SavedLimits } from '../../options/limiter.js';
import type { Checked } from '../../options/options.js';
import {
  amount,
  check,
  checked,
  count,
  countFromZero,
  durationMs,
  flag,
  madeBy,
  misused,
  nonEmpty,
  object,
  oneOf,
  onlyKnown,
  optional,
  ratio,
  requiredFunction,
  startingRate,
} from '../../options/options.js';
import { requiredSignal } from '../calls/abort.js';
import { asked } from '../calls/asked.js';
import { schedulerOption } from '../time/alarm.js';

/** What the limiter calls itself in errors and events. */
export const NAME = 'createLimiter';

const DEFAULTS = /* @__PURE__ */ (() => ({
  ...CREATE_LIMITER,
  rates: [] as readonly RateRule[],
  queue: ONE_LINE as GrantQueueRule<LimiterJob>,
  random: Math.random,
}))();

const JOB = ['id', 'lane', 'key', 'model', 'cost', 'signal', 'deadlineMs', 'waitsForRoom', 'holder'] as const;

/** The options, checked and with their defaults. */
export interface LimiterSettings extends Omit<Checked<LimiterOptions, typeof DEFAULTS>, 'queue'> {
  readonly queue: GrantQueueRule<LimiterJob>;
}

/** How each option is checked. */
export const LIMITER_CHECKS = /* @__PURE__ */ (() => ({
  concurrency: count,
  rates: ratesOption,
  headroom: (operator: string, option: string, value: number) => ratio(operator, option, value, 0.01),
  queue: madeBy<GrantQueueRule<LimiterJob>>('create', 'lanes([…])'),
  maxQueued: asked(countFromZero, Infinity),
  overflow: asked(oneOf('error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'), 'error'),
  learn: madeBy<LearnRule | undefined>('addTo', 'fromHeaders()', undefined),
  refunds: flag,
  enforce: flag,
  abortGraceMs: durationMs,
  restore: optional(
    check<SavedLimits>('the result of `save()`', function isSaved(saved): boolean {
      const { at, pausedForMs, rates, models = [] } = Object(saved) as SavedLimits;
      if (!Array.isArray(rates) || !Array.isArray(models)) return false;
      // From a file, which may hold anything: a rate that goes on from what is no number would stand still for ever.
      const numbersOf = (rate: unknown): readonly unknown[] => {
        const { windowMs, isStrict, spent } = Object(rate) as SavedLimits['rates'][0];
        return [windowMs, Number(isStrict), ...(Array.isArray(spent) ? (spent as readonly unknown[]) : [undefined])];
      };
      return [at, pausedForMs, ...rates.flatMap(numbersOf)].every(Number.isFinite) && models.every((model) => isSaved(model as never));
    }),
  ),
  random: requiredFunction,
  ...EVENT_CHECKS,
  scheduler: schedulerOption,
}))();

/** @throws FlowConfigError */
export function limiterSettings(options: LimiterOptions, operator = NAME): LimiterSettings {
  const settings = checked(operator, options, DEFAULTS, LIMITER_CHECKS, '', LIMITER_HINTS);
  for (const [i, rate] of (settings.rates as readonly (RateRule & RateSpec)[]).entries())
    startingRate(operator, `rates[${i}].amount`, rate.amount);
  return settings;
}

/** @throws FlowConfigError */
export function ratesOption(operator: string, option: string, rates: readonly RateRule[]): readonly RateRule[] {
  if (!Array.isArray(rates)) throw new FlowConfigError(operator, option, "a list of rates such as perMinute('requests', 600)", rates);
  const rate = madeBy<RateRule & RateSpec>('addTo', "a rate such as perMinute('requests', 600)");
  const rules: (RateRule & RateSpec)[] = [];
  // Not `forEach`, which passes over holes.
  for (const [i, rule] of (rates as readonly (RateRule & RateSpec)[]).entries()) {
    const name = `${option}[${i}]`;
    rate(operator, name, rule);
    if (rules.some((other) => isSameRate(other, rule)))
      throw misused(operator, `${name}.unit`, `two rates of \`${rule.unit}\` have the same window`, 'Remove one of them.');
    rules.push(rule);
  }
  return rules;
}

/** @throws FlowConfigError */
export function checkJob(job: LimiterJob): void {
  onlyKnown(NAME, job, JOB, 'job');
  if (job.signal !== undefined) requiredSignal(NAME, 'signal', job.signal);
  if (job.model !== undefined) nonEmpty(NAME, 'model', job.model);
  if (job.deadlineMs !== undefined) durationMs(NAME, 'deadlineMs', job.deadlineMs);
  if (job.waitsForRoom !== undefined) flag(NAME, 'waitsForRoom', job.waitsForRoom);
  if (job.holder !== undefined) madeBy('granted', 'heldBy(lease)')(NAME, 'holder', job.holder);
}

const UNITS = ['slots', 'requests', 'tokens'] as const;
const PARTS: readonly string[] = ['inputTokens', 'outputTokens'];
/** For every name. */
const COST_HINTS = { '': 'Use `slots`, `requests`, `tokens`, `inputTokens` or `outputTokens`, or add a rate of that unit.' };

/** What a cost amounts to; `counts` says which units of your own there are. @throws FlowConfigError */
export function chargeOf(operator: string, cost: Cost | undefined, counts: (unit: string) => boolean, within = 'cost.'): Charge {
  if (cost === undefined) return ONE_REQUEST;
  object(operator, 'cost', cost);
  const charge: Record<string, number> & { slots: number; requests: number; tokens: number } = { slots: 1, requests: 1, tokens: 0 };
  let others: Record<string, number> | undefined;
  for (const unit in cost) {
    const isOurs = (UNITS as readonly string[]).includes(unit);
    const given = cost[unit];
    if (!isOurs && !PARTS.includes(unit) && !counts(unit))
      onlyKnown(operator, { [unit]: given }, [...UNITS, ...PARTS], 'cost', within, COST_HINTS);
    if (given !== undefined) (isOurs ? charge : (others ??= {}))[unit] = amount(operator, within + unit, given);
  }
  if (cost.tokens === undefined && others) charge.tokens = (others['inputTokens'] ?? 0) + (others['outputTokens'] ?? 0);
  // What rounding leaves of fractions would be in use for ever.
  if (!Number.isInteger(charge.slots)) throw new FlowConfigError(operator, `${within}slots`, 'a whole number >= 0', charge.slots);
  return others ? { ...charge, others } : charge;
}

/** What `whenQueued` is asked. @throws FlowConfigError */
export function belowOption(options: { readonly below: number }): number {
  onlyKnown(NAME, options, ['below']);
  return count(NAME, 'below', options.below);
}
