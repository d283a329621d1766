import type { SchedulerLike } from 'rxjs';
import { asyncScheduler } from 'rxjs';
import { FlowConfigError } from '../../operators/options/errors.js';
import {
  count,
  durationMs,
  flag,
  misused,
  onlyKnown,
  orDefault,
  positive,
  ratio,
  requiredFunction,
} from '../../operators/options/options.js';
import type { ModelQuestion } from './rules.js';
import type { ProviderAnswer, ProviderFaults, ProviderOptions } from './types.js';

const NAME = 'fakeProvider';
const SHARES = ['serverErrors', 'overloaded', 'cut', 'overloadedInStream', 'noUsage', 'flexBusy'] as const;
/** Of one request at most one of these happens. */
const EXCLUSIVE = ['serverErrors', 'overloaded', 'cut', 'overloadedInStream'] as const;
const KNOWN = [
  ...['provider', 'answer', 'tokensOf', 'latencyMs', 'msPerOutputToken', 'pieces', 'enforce', 'faults', 'seed', 'speed', 'startsAt'],
  ...['maxCalls', 'scheduler'],
];

/** Options of a provider, checked. */
export interface CheckedOptions {
  readonly answerOf: (question: ModelQuestion) => ProviderAnswer;
  readonly tokensOf: (text: string) => number;
  readonly latencyOf: (question: ModelQuestion) => number;
  readonly msPerOutputToken: number;
  readonly pieces: number;
  readonly enforce: boolean;
  readonly faults: ProviderFaults;
  readonly checkFaults: (faults: ProviderFaults) => ProviderFaults;
  readonly seed: number;
  readonly speed: number;
  readonly startsAt: number | undefined;
  readonly maxCalls: number;
  readonly scheduler: SchedulerLike;
}

const LIMITS = 'Set limits on the provider: `provider: openai({ … })`.';
const HINTS = { PerMinute: LIMITS, PerDay: LIMITS };

export function checkedOptions(options: ProviderOptions): CheckedOptions {
  onlyKnown(NAME, options, KNOWN, 'options', '', HINTS);
  const { seed = 1, scheduler = asyncScheduler, startsAt, latencyMs = 0 } = options;
  if (!Number.isSafeInteger(seed)) throw new FlowConfigError(NAME, 'seed', 'a whole number', seed);
  if (startsAt !== undefined && !Number.isFinite(startsAt))
    throw new FlowConfigError(NAME, 'startsAt', 'milliseconds since 1970', startsAt);
  const answer = requiredFunction(
    NAME,
    'answer',
    orDefault(options.answer, ({ text }: ModelQuestion) => text),
  );
  const latency = typeof latencyMs === 'function' ? latencyMs : durationMs(NAME, 'latencyMs', latencyMs);
  return {
    answerOf: (question) => {
      const answered = answer(question);
      return typeof answered === 'string' ? { text: answered } : answered;
    },
    tokensOf: requiredFunction(NAME, 'tokensOf', orDefault(options.tokensOf, quarterOf)),
    latencyOf: typeof latency === 'function' ? latency : () => latency,
    msPerOutputToken: durationMs(NAME, 'msPerOutputToken', orDefault(options.msPerOutputToken, 0)),
    pieces: count(NAME, 'pieces', orDefault(options.pieces, 4)),
    enforce: flag(NAME, 'enforce', orDefault(options.enforce, true)),
    faults: checkFaults(orDefault(options.faults, {})),
    checkFaults,
    seed,
    speed: positive(NAME, 'speed', orDefault(options.speed, 1)),
    startsAt,
    maxCalls: count(NAME, 'maxCalls', orDefault(options.maxCalls, Infinity)),
    scheduler,
  };
}

function checkFaults(faults: ProviderFaults): ProviderFaults {
  onlyKnown(NAME, faults, [...SHARES, 'refuseForMs', 'hints', 'quota'], 'faults', 'faults.');
  for (const share of SHARES) ratio(NAME, `faults.${share}`, orDefault(faults[share], 0));
  const sum = EXCLUSIVE.reduce((total, share) => total + (faults[share] ?? 0), 0);
  if (sum > 1 + Number.EPSILON)
    throw misused(NAME, 'faults', `the shares in \`faults\` add up to ${String(sum)}`, 'Lower them to at most 1 in total.');
  if (faults.refuseForMs !== undefined) durationMs(NAME, 'faults.refuseForMs', faults.refuseForMs);
  flag(NAME, 'faults.hints', orDefault(faults.hints, true));
  flag(NAME, 'faults.quota', orDefault(faults.quota, false));
  return faults;
}

function quarterOf(text: string): number {
  return Math.ceil(text.length / 4);
}

/** A time zone and an hour of it. */
export function checkedDay(
  name: string,
  day: { readonly timeZone?: string; readonly hour?: number } | undefined,
  zone: string,
): { readonly timeZone: string; readonly hour: number } {
  const { timeZone = zone, hour = 0 } = day ?? {};
  if (day !== undefined) onlyKnown(name, day, ['timeZone', 'hour'], 'dayStartsAt', 'dayStartsAt.');
  if (!Number.isInteger(hour) || hour < 0 || hour > 23)
    throw new FlowConfigError(name, 'dayStartsAt.hour', 'a whole number from 0 to 23', hour);
  try {
    new Intl.DateTimeFormat('en-US', { timeZone });
  } catch {
    throw new FlowConfigError(name, 'dayStartsAt.timeZone', 'the name of a time zone', timeZone);
  }
  return { timeZone, hour };
}

/** Limits of a preset, each a number > 0; and of its `models`. */
export function checkedLimits<L extends object>(name: string, limits: L, known: readonly (keyof L & string)[], within = ''): L {
  for (const each of known) if (limits[each] !== undefined) positive(name, within + each, limits[each]);
  return limits;
}

/** Limits of single models. */
export function checkedModels<L extends object>(
  name: string,
  models: Readonly<Record<string, L>> | undefined,
  known: readonly (keyof L & string)[],
): Readonly<Record<string, L>> {
  if (models === undefined) return {};
  for (const [model, limits] of Object.entries(models)) {
    onlyKnown(name, limits, known, 'models', `models.${model}.`);
    checkedLimits(name, limits, known, `models.${model}.`);
  }
  return models;
}
