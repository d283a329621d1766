import type { SchedulerLike } from 'rxjs';
import { FlowConfigError } from '../../options/errors.js';
import type { FlowSink } from '../../options/events.js';
import { listener } from '../../options/events.js';
import { LaneTable, overflow as overflowOption } from '../../options/lanes.js';
import { asGiven, checked, count, countFromZero, durationMs, flag, known, ratio, required, words } from '../../options/options.js';
import { requiredSignal } from '../../shell/abort.js';
import { schedulerOption } from '../../shell/alarm.js';
import { checkedCost } from './cost.js';
import type { ChildLimiterOptions, Cost, LimiterJob, LimiterLimits, LimiterOptions, ObserveOptions } from './limiter-types.js';

export const LIMITER_DEFAULTS = {
  concurrency: Infinity,
  requestsPerMinute: Infinity,
  tokensPerMinute: Infinity,
  discipline: 'bucket',
  burstSeconds: 2,
  headroom: 0.9,
  maxQueued: Infinity,
  overflow: 'error',
  fairness: 'strict',
  maxWaitMs: Infinity,
  costAboveCapacity: 'borrow',
  learn: true,
  refunds: true,
  abortGraceMs: 1000,
} as const;

/** What the limiter calls itself in errors and events. */
export const NAME = 'createLimiter';

/** What can be changed later on. */
const LIMITS = { concurrency: count, requestsPerMinute: rate, tokensPerMinute: rate };

/** A number >= 0, or Infinity for "no limit". */
function rate(operator: string, option: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0) return value;
  throw new FlowConfigError(operator, option, 'a number >= 0 or Infinity', value);
}

/** What a child has from its parent, and the last two only from one that has declared lanes. */
const INHERITED = ['scheduler', 'lanes', 'fairness'] as const;

/** The options, checked and with their defaults. */
export interface LimiterConfig {
  readonly limits: Required<LimiterLimits>;
  /** Whether the rates hold in any 60 seconds; `burstSeconds` says nothing then. */
  readonly isSliding: boolean;
  readonly burstSeconds: number;
  readonly headroom: number;
  readonly lanes: LaneTable;
  /** Whether these are the lanes of the limiter above; with lanes of its own, or none, all that is here is one lane there. */
  readonly sharesLanes: boolean;
  readonly maxQueued: number;
  readonly maxWaitMs: number;
  /** Whether a job that costs more than the buckets hold may go into debt. */
  readonly borrows: boolean;
  /** Whether responses set the rates. */
  readonly learns: boolean;
  /** Whether tokens that were paid for and not used come back. */
  readonly refunds: boolean;
  readonly abortGraceMs: number;
  readonly random: () => number;
  readonly onEvent: FlowSink | undefined;
  readonly scheduler: SchedulerLike;
}

/** For a limiter under another one: its clock is that one's, and so are its lanes, if there are any. Its bounds are its own. */
export function childConfig(options: ChildLimiterOptions, parent: LimiterConfig): LimiterConfig {
  const given: LimiterOptions = checkObject(options);
  for (const name of parent.lanes.isDeclared ? INHERITED : INHERITED.slice(0, 1)) {
    if (given[name] !== undefined) throw new FlowConfigError(NAME, name, 'absent: a child has that of its parent', given[name]);
  }
  const config = limiterConfig({ ...given, scheduler: parent.scheduler });
  if (!parent.lanes.isDeclared) return config;
  const { overflow = LIMITER_DEFAULTS.overflow } = given;
  return { ...config, sharesLanes: true, lanes: parent.lanes.withBounds({ maxQueued: config.maxQueued, overflow }) };
}

/** @throws FlowConfigError */
export function checkObject<O extends object>(options: O): O {
  if (typeof options === 'object' && (options as O | null) !== null) return options;
  throw new FlowConfigError(NAME, 'options', 'an object', options);
}

export function limiterConfig(options: LimiterOptions): LimiterConfig {
  const {
    concurrency,
    requestsPerMinute,
    tokensPerMinute,
    discipline,
    lanes,
    fairness,
    overflow,
    costAboveCapacity,
    learn: learns,
    ...config
  } = checked(
    NAME,
    options,
    { ...LIMITER_DEFAULTS, random: Math.random },
    {
      ...LIMITS,
      discipline: words('bucket', 'sliding'),
      burstSeconds: burstOption,
      headroom: (operator, option, value) => ratio(operator, option, value, 0.01),
      lanes: asGiven,
      fairness: asGiven,
      maxQueued: countFromZero,
      overflow: overflowOption,
      maxWaitMs: durationMs,
      costAboveCapacity: words('borrow', 'reject'),
      learn: flag,
      refunds: flag,
      abortGraceMs: durationMs,
      random: required,
      onEvent: listener,
      scheduler: schedulerOption,
    },
  );
  const isSliding = discipline === 'sliding';
  if (isSliding) fitsWindow(options, costAboveCapacity);
  return {
    ...config,
    isSliding,
    limits: { concurrency, requestsPerMinute, tokensPerMinute },
    borrows: costAboveCapacity === 'borrow',
    learns,
    sharesLanes: false,
    lanes: new LaneTable(NAME, lanes, { maxQueued: config.maxQueued, overflow, fairness }),
  };
}

/** The `burstSeconds` option, also of what makes a limiter of its own. */
export function burstOption(operator: string, option: string, value: unknown): number {
  return ratio(operator, option, value, 0.001, 86_400);
}

/** In a window there is nothing to borrow from, and nothing to save up. */
function fitsWindow({ burstSeconds }: LimiterOptions, costAboveCapacity: string): void {
  const sliding = "with `discipline: 'sliding'`";
  if (costAboveCapacity !== 'reject') throw new FlowConfigError(NAME, 'costAboveCapacity', `'reject' ${sliding}`, costAboveCapacity);
  if (burstSeconds !== undefined) throw new FlowConfigError(NAME, 'burstSeconds', `absent ${sliding}`, burstSeconds);
}

/** What `setLimits` was given, and for the rest what was in force. */
export function changedLimits(limits: LimiterLimits, current: Required<LimiterLimits>): Required<LimiterLimits> {
  return checked(NAME, limits, current, LIMITS);
}

/** What a job wants, and in which lane. */
export interface Wish {
  readonly lane: number;
  readonly requests: number;
  /** Undefined for a bidder, which decides late. */
  readonly tokens: number | undefined;
}

/** A wish that says how many tokens. */
export interface JobWish extends Wish {
  readonly tokens: number;
}

const JOB = ['lane', 'cost', 'signal', 'timeoutMs', 'holder'] as const;
const OBSERVED = ['sentAt', 'lane'] as const;

export function checkObserved(options: ObserveOptions): void {
  known(NAME, options, OBSERVED);
  const { sentAt } = options;
  if (sentAt !== undefined && !Number.isFinite(sentAt)) throw new FlowConfigError(NAME, 'sentAt', 'a finite number', sentAt);
}

export function checkJob(job: LimiterJob): void {
  known(NAME, job, JOB, 'job');
  if (job.signal !== undefined) requiredSignal(NAME, 'signal', job.signal);
  if (job.holder !== undefined && typeof (job.holder as { readonly of?: unknown } | null)?.of !== 'function')
    throw new FlowConfigError(NAME, 'holder', 'a lease of a limiter', job.holder);
}

export function jobWish(lane: number, cost: Cost = {}): JobWish {
  const { requests, tokens } = checkedCost(NAME, cost, 'cost.');
  return { lane, requests, tokens };
}
