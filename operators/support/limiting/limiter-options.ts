import type { SchedulerLike } from 'rxjs';
import { schedulerOption } from '../alarm.js';
import { FlowConfigError } from '../errors.js';
import type { FlowSink } from '../events.js';
import { safeSink } from '../events.js';
import { LaneTable, overflow } from '../lanes.js';
import { callback, count, durationMs, known, oneOf, orDefault, positive, ratio } from '../options.js';
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

const LIMITS = ['concurrency', 'requestsPerMinute', 'tokensPerMinute'];
const OPTIONS = /* @__PURE__ */ LIMITS.concat(
  'burstSeconds',
  'headroom',
  'lanes',
  'fairness',
  'maxQueued',
  'overflow',
  'maxWaitMs',
  'costAboveCapacity',
  'abortGraceMs',
  'onEvent',
  'scheduler',
);

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
  known(NAME, options, OPTIONS);
  const d = LIMITER_DEFAULTS;
  const limits = mergedLimits(options, d);
  const burstSeconds = ratio(NAME, 'burstSeconds', orDefault(options.burstSeconds, d.burstSeconds), 0.001, 86_400);
  const headroom = ratio(NAME, 'headroom', orDefault(options.headroom, d.headroom), 0.01);
  const maxQueued = count(NAME, 'maxQueued', orDefault(options.maxQueued, d.maxQueued), 0);
  return {
    limits,
    burstSeconds,
    headroom,
    maxQueued,
    maxWaitMs: durationMs(NAME, 'maxWaitMs', orDefault(options.maxWaitMs, d.maxWaitMs)),
    borrows: oneOf(NAME, 'costAboveCapacity', orDefault(options.costAboveCapacity, d.costAboveCapacity), ['borrow', 'reject']) === 'borrow',
    abortGraceMs: durationMs(NAME, 'abortGraceMs', orDefault(options.abortGraceMs, d.abortGraceMs)),
    onEvent: safeSink(callback(NAME, 'onEvent', options.onEvent)),
    lanes: new LaneTable(NAME, options.lanes, {
      maxQueued,
      overflow: overflow(NAME, 'overflow', orDefault(options.overflow, d.overflow)),
      fairness: orDefault(options.fairness, d.fairness),
    }),
    scheduler: schedulerOption(NAME, options.scheduler),
  };
}

/** What `setLimits` was given, and for the rest what was in force. */
export function changedLimits(limits: LimiterLimits, current: Required<LimiterLimits>): Required<LimiterLimits> {
  known(NAME, limits, LIMITS);
  return mergedLimits(limits, current);
}

function mergedLimits(limits: LimiterLimits, current: Required<LimiterLimits>): Required<LimiterLimits> {
  return {
    concurrency: count(NAME, 'concurrency', orDefault(limits.concurrency, current.concurrency)),
    requestsPerMinute: positive(NAME, 'requestsPerMinute', orDefault(limits.requestsPerMinute, current.requestsPerMinute)),
    tokensPerMinute: positive(NAME, 'tokensPerMinute', orDefault(limits.tokensPerMinute, current.tokensPerMinute)),
  };
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

const JOB = ['lane', 'cost', 'signal', 'timeoutMs'];
const COST = ['requests', 'tokens'];

export function checkJob(job: LimiterJob): void {
  known(NAME, job, JOB, 'job');
}

export function jobWish(lane: number, cost: Cost = {}): JobWish {
  known(NAME, cost, COST, 'cost');
  const { requests = 1, tokens = 0 } = cost;
  amount('requests', requests);
  amount('tokens', tokens);
  return { lane, requests, tokens };
}

function amount(name: keyof Cost, value: unknown): void {
  if (typeof value === 'number' && value >= 0 && value !== Infinity) return;
  throw new FlowConfigError(NAME, `cost.${name}`, 'a finite number >= 0', value);
}
