import type { SchedulerLike } from 'rxjs';
import { requiredSignal } from '../abort.js';
import { schedulerOption } from '../alarm.js';
import { FlowConfigError } from '../errors.js';
import type { FlowSink } from '../events.js';
import { listener } from '../events.js';
import { LaneTable, overflow as overflowOption } from '../lanes.js';
import { asGiven, checked, count, countFromZero, durationMs, known, positive, ratio, words } from '../options.js';
import type { Cost, LimiterJob, LimiterLimits, LimiterOptions } from './limiter-types.js';

export const LIMITER_DEFAULTS = {
  concurrency: Infinity,
  requestsPerMinute: Infinity,
  tokensPerMinute: Infinity,
  burstSeconds: 2,
  headroom: 0.9,
  maxQueued: 1000,
  overflow: 'error',
  fairness: 'strict',
  maxWaitMs: Infinity,
  costAboveCapacity: 'borrow',
  abortGraceMs: 1000,
} as const;

/** What the limiter calls itself in errors and events. */
export const NAME = 'createLimiter';

/** What can be changed later on. */
const LIMITS = { concurrency: count, requestsPerMinute: positive, tokensPerMinute: positive };

/** The options, checked and with their defaults. */
export interface LimiterConfig {
  readonly limits: Required<LimiterLimits>;
  readonly burstSeconds: number;
  readonly headroom: number;
  readonly lanes: LaneTable;
  readonly maxQueued: number;
  readonly maxWaitMs: number;
  /** Whether a job that costs more than the buckets hold may go into debt. */
  readonly borrows: boolean;
  readonly abortGraceMs: number;
  readonly onEvent: FlowSink | undefined;
  readonly scheduler: SchedulerLike;
}

export function limiterConfig(options: LimiterOptions): LimiterConfig {
  const { concurrency, requestsPerMinute, tokensPerMinute, lanes, fairness, overflow, costAboveCapacity, ...config } = checked(
    NAME,
    options,
    LIMITER_DEFAULTS,
    {
      ...LIMITS,
      burstSeconds: (operator, option, value) => ratio(operator, option, value, 0.001, 86_400),
      headroom: (operator, option, value) => ratio(operator, option, value, 0.01),
      lanes: asGiven,
      fairness: asGiven,
      maxQueued: countFromZero,
      overflow: overflowOption,
      maxWaitMs: durationMs,
      costAboveCapacity: words('borrow', 'reject'),
      abortGraceMs: durationMs,
      onEvent: listener,
      scheduler: schedulerOption,
    },
  );
  return {
    ...config,
    limits: { concurrency, requestsPerMinute, tokensPerMinute },
    borrows: costAboveCapacity === 'borrow',
    lanes: new LaneTable(NAME, lanes, { maxQueued: config.maxQueued, overflow, fairness }),
  };
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

const JOB = ['lane', 'cost', 'signal', 'timeoutMs'] as const;
const COST = ['requests', 'tokens'] as const;

export function checkJob(job: LimiterJob): void {
  known(NAME, job, JOB, 'job');
  if (job.signal !== undefined) requiredSignal(NAME, 'signal', job.signal);
}

export function jobWish(lane: number, cost: Cost = {}): JobWish {
  known(NAME, cost, COST, 'cost', 'cost.');
  const { requests = 1, tokens = 0 } = cost;
  amount('requests', requests);
  amount('tokens', tokens);
  return { lane, requests, tokens };
}

function amount(name: keyof Cost, value: unknown): void {
  if (typeof value === 'number' && value >= 0 && value !== Infinity) return;
  throw new FlowConfigError(NAME, `cost.${name}`, 'a finite number >= 0', value);
}
