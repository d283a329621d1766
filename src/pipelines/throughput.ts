import { check } from '../../operators/build.js';
import type { AccountOptions } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';

/** A stage, and what it is expected to have to do. */
export interface StageLoad {
  readonly name: string;
  /** Calls of this stage at a time. @defaultValue Infinity */
  readonly concurrency?: number;
  /** Whether all documents share `concurrency`, or each has as much. @defaultValue 'shared' */
  readonly scope?: 'shared' | 'perBatch';
  /** Items that this stage has in each document, on average. @defaultValue 1 */
  readonly itemsPerDocument?: number;
  /** Calls for an item, one after the other; 0 for a stage that makes no calls. @defaultValue 1 */
  readonly callsPerItem?: number;
  /** How long one call takes, in seconds. @defaultValue 0 */
  readonly secondsPerCall?: number;
  /** Tokens of one call, of what is sent and of what comes back. @defaultValue 0 */
  readonly tokensPerCall?: number;
}

/** What the request level allows: options of `createAccount`, of which the rates and `concurrency` count here. */
export type RequestLimits = Pick<
  AccountOptions,
  'concurrency' | 'requestsPerMinute' | 'burst' | 'tokensPerMinute' | 'burstSeconds' | 'headroom' | 'lanes'
> & { readonly maxQueued?: number };

/**
 * What is to be done, and under which limits.
 * @beta
 */
export interface ThroughputPlan {
  readonly documents: number;
  readonly batches?: {
    /** Documents in progress at a time. @defaultValue Infinity */
    readonly concurrency?: number;
  };
  /** In the order of the work: an item enters a stage as soon as it has left the one before. */
  readonly stages: readonly StageLoad[];
  readonly limits?: RequestLimits;
}

/** One thing that bounds throughput. */
export interface ThroughputLevel {
  /** `batches` are documents in progress, each of them at its way through all stages. */
  readonly level: 'batches' | 'stage' | 'requests' | 'requestRate' | 'tokenRate';
  /** Where the limit is set: `batches.concurrency`, `stages.answer.concurrency`, `limits.requestsPerMinute`. */
  readonly setting: string;
  /** As set; of a rate the amount per minute, of a stage with scope `'perBatch'` that of one document. */
  readonly limit: number;
  /** Nothing can be done sooner, whatever the other levels allow. */
  readonly boundMs: number;
  /** Results of the last stage in a second, if nothing else limited them. */
  readonly itemsPerSecond: number;
  /** `boundMs` as a part of the makespan: 1 for the bottleneck, little where there is much room. */
  readonly utilisation: number;
}

/** What to raise, and what comes of it. */
export interface ThroughputRaise {
  readonly setting: string;
  readonly from: number;
  /**
   * The least that makes something else the bottleneck, or that still helps; of a rate that only comes near, what gains all but a hundredth. At most twice
   * `from`, unless that gains nothing: memory and the provider have limits that are not known here.
   */
  readonly to: number;
  /** Whether `to` is only a step: more would help, once this has turned out well. */
  readonly isStep: boolean;
  /** The bound after that. */
  readonly makespanMs: number;
  /** What is the bottleneck then. */
  readonly next: string;
}

/**
 * What bounds a job, by Little's law.
 * @beta
 */
export interface Throughput {
  readonly documents: number;
  /** Results of the last stage. */
  readonly items: number;
  readonly calls: number;
  readonly tokens: number;
  /** Of the bottleneck: the whole takes no less. */
  readonly makespanMs: number;
  readonly itemsPerSecond: number;
  readonly bottleneck: ThroughputLevel;
  /** Every limit there is: documents, stages in their order, requests. */
  readonly levels: readonly ThroughputLevel[];
  /** Undefined when no limit is in the way, only the calls themselves: raising one would gain less than a hundredth. */
  readonly raise?: ThroughputRaise;
}

/**
 * What bounds a job of several levels, and what to raise: documents in progress, stages, requests at a time, the rates of an account. Each level
 * has the time that it would take if nothing else limited it; the longest of them is the bottleneck, and the whole takes no less (Little's law:
 * what is in progress is throughput times the time that each takes).
 *
 * The bounds hold exactly when every call takes the time that is stated, and on average otherwise. It knows nothing of retries.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when something is unknown or out of range.
 * @example
 * ```ts
 * import { explainThroughput } from 'sluice';
 *
 * const grade = { name: 'grade', concurrency: 3, scope: 'perBatch', itemsPerDocument: 20, secondsPerCall: 20 } as const;
 * const { makespanMs, bottleneck, raise } = explainThroughput({
 *   documents: 100,
 *   batches: { concurrency: 3 },
 *   stages: [grade],
 *   limits: { concurrency: 5 },
 * });
 * [bottleneck.setting, makespanMs / 1000]; // => ['limits.concurrency', 8000]
 * [raise?.to, raise?.next]; // => [9, 'batches.concurrency']
 * ```
 */
export function explainThroughput(plan: ThroughputPlan): Throughput {
  checkPlan(plan);
  const { documents, stages } = plan;
  const steps = stepsOf(plan);
  const bounds = boundsOf(plan, steps);
  const { boundMs: makespanMs } = slowest(bounds);
  const items = documents * check.orDefault(stages.at(-1)?.itemsPerDocument, 1);
  const level = (bound: Bound): ThroughputLevel => ({
    ...bound,
    itemsPerSecond: perSecond(items, bound.boundMs),
    utilisation: bound.boundMs === makespanMs ? 1 : bound.boundMs / makespanMs,
  });
  const raise = raiseOf(plan, slowest(bounds));
  return {
    documents,
    items,
    calls: sum(steps, ({ calls }) => calls),
    tokens: sum(steps, ({ calls, tokens }) => calls * tokens),
    makespanMs,
    itemsPerSecond: perSecond(items, makespanMs),
    bottleneck: level(slowest(bounds)),
    levels: bounds.map(level),
    ...(raise && { raise }),
  };
}

const NAME = 'explainThroughput';

type Bound = Pick<ThroughputLevel, 'level' | 'setting' | 'limit' | 'boundMs'>;

/** A stage in calls. */
interface Step {
  readonly name: string;
  /** Of all documents. */
  readonly calls: number;
  readonly tokens: number;
  readonly callMs: number;
  readonly callsPerItem: number;
  /** Of one document, or of all. */
  readonly limit: number;
  /** Most calls at a time that `limit` leaves. */
  readonly most: number;
  /** Most calls at a time, as so many items are there. */
  readonly cap: number;
  /** The least time before its first call, and after its last one. */
  readonly headMs: number;
  readonly tailMs: number;
}

function stepsOf({ documents, batches = {}, stages }: ThroughputPlan): Step[] {
  const inProgress = Math.min(documents, check.orDefault(batches.concurrency, Infinity));
  const itemMs = stages.map(({ callsPerItem = 1, secondsPerCall = 0 }) => callsPerItem * secondsPerCall * 1000);
  return stages.map((stage, i) => {
    const { name, concurrency = Infinity, scope, itemsPerDocument = 1, callsPerItem = 1, secondsPerCall = 0, tokensPerCall = 0 } = stage;
    const most = scope === 'perBatch' ? concurrency * inProgress : concurrency;
    return {
      name,
      calls: documents * itemsPerDocument * callsPerItem,
      tokens: tokensPerCall,
      callMs: secondsPerCall * 1000,
      callsPerItem,
      limit: concurrency,
      most,
      cap: callsPerItem === 0 ? 0 : Math.min(most, Math.max(1, itemsPerDocument) * inProgress),
      headMs: sum(itemMs.slice(0, i), (ms) => ms),
      tailMs: sum(itemMs.slice(i + 1), (ms) => ms),
    };
  });
}

/** One for each limit. Documents in progress are there always: one of them at least takes its time. */
function boundsOf(plan: ThroughputPlan, steps: readonly Step[]): Bound[] {
  const { documents, batches = {}, limits = {} } = plan;
  const { concurrency: inProgress = Infinity } = batches;
  const rounds = inProgress === Infinity ? Math.min(1, documents) : whole(documents / inProgress);
  const bounds: Bound[] = [
    { level: 'batches', setting: 'batches.concurrency', limit: inProgress, boundMs: rounds * slowest(withinOne(plan)).boundMs },
    ...stageBounds(steps),
    ...slotBound(steps, limits),
  ];
  const { requestsPerMinute = Infinity, tokensPerMinute = Infinity, burst } = limits;
  if (requestsPerMinute !== Infinity) {
    const boundMs = rateMs(steps, limits, requestsPerMinute, () => 1, burst);
    bounds.push({ level: 'requestRate', setting: 'limits.requestsPerMinute', limit: requestsPerMinute, boundMs });
  }
  if (tokensPerMinute !== Infinity) {
    const boundMs = rateMs(steps, limits, tokensPerMinute, ({ tokens }) => tokens);
    bounds.push({ level: 'tokenRate', setting: 'limits.tokensPerMinute', limit: tokensPerMinute, boundMs });
  }
  return bounds;
}

/** What bounds one document that has everything to itself; rates have been saved up for it. */
function withinOne({ batches, stages, limits = {} }: ThroughputPlan): Bound[] {
  const steps = stepsOf({ documents: 1, stages });
  const callsInRow: Bound = {
    level: 'batches',
    setting: 'batches.concurrency',
    limit: check.orDefault(batches?.concurrency, Infinity),
    boundMs: sum(steps, ({ callMs, callsPerItem }) => callMs * callsPerItem),
  };
  return [callsInRow, ...stageBounds(steps), ...slotBound(steps, limits)];
}

function stageBounds(steps: readonly Step[]): Bound[] {
  return steps
    .filter(({ limit }) => limit !== Infinity)
    .map(({ name, limit, most, calls, callMs, headMs, tailMs }) => ({
      level: 'stage',
      setting: `stages.${name}.concurrency`,
      limit,
      boundMs: calls === 0 ? 0 : headMs + whole(calls / most) * callMs + tailMs,
    }));
}

/** The work of all calls on so many slots, and what stays idle before later stages have anything to do and after earlier ones have nothing left. */
function slotBound(steps: readonly Step[], { concurrency = Infinity }: RequestLimits): Bound[] {
  if (concurrency === Infinity) return [];
  const work = sum(steps, ({ calls, callMs }) => calls * callMs);
  const idle = (busy: readonly Step[], { callMs, callsPerItem }: Step): number =>
    Math.max(0, concurrency - sum(busy, ({ cap }) => cap)) * callMs * callsPerItem;
  // The time of a stage counts once: at the beginning or at the end. Otherwise the two could overlap in a short job.
  const splits = Array.from({ length: steps.length + 1 }, (_, at) =>
    sum(
      steps.map((step, i) => idle(i < at ? steps.slice(0, i + 1) : steps.slice(i), step)),
      (ms) => ms,
    ),
  );
  const idleMs = work === 0 ? 0 : Math.max(...splits);
  return [{ level: 'requests', setting: 'limits.concurrency', limit: concurrency, boundMs: (work + idleMs) / concurrency }];
}

/** Until the last call is let through, and what follows it. */
function rateMs(
  steps: readonly Step[],
  { headroom = 0.9, burstSeconds = 2 }: RequestLimits,
  perMinute: number,
  costOf: (step: Step) => number,
  burst?: number,
): number {
  const paying = steps.filter((step) => step.calls > 0 && costOf(step) > 0);
  const [first] = paying;
  if (first === undefined) return 0;
  const perMs = (perMinute * headroom) / 60_000;
  // What costs more than can be saved up goes when all of it is there.
  const saved = Math.max(1, check.orDefault(burst, perMs * burstSeconds * 1000), ...paying.map(costOf));
  const cost = sum(paying, (step) => step.calls * costOf(step));
  const endMs = Math.min(...paying.map(({ callMs, tailMs }) => callMs + tailMs));
  // As long as only the first stage has anything to do, some of the rate may be left over, and more than `saved` is not kept.
  const earlyMs = first.headMs + first.callMs * first.callsPerItem;
  const early = first.cap * first.callsPerItem * costOf(first);
  return endMs + Math.max(cost > saved ? (cost - saved) / perMs : 0, cost > saved + early ? earlyMs + (cost - saved - early) / perMs : 0);
}

/** A gain below this share does not count, because a rate may only approach the time without a limit. `FARTHEST` is the largest factor by which a limit is raised. */
const NEGLIGIBLE = 0.01;
const FARTHEST = 1e6;

function raiseOf(plan: ThroughputPlan, bottleneck: Bound): ThroughputRaise | undefined {
  const { setting } = bottleneck.level === 'batches' && bottleneck.limit >= plan.documents ? slowest(withinOne(plan)) : bottleneck;
  const from = limitOf(plan, setting);
  if (from >= Number.MAX_SAFE_INTEGER / FARTHEST || bottleneck.boundMs === 0) return undefined;
  const at = (limit: number): Bound => {
    const raised = withLimit(plan, setting, limit);
    return slowest(boundsOf(raised, stepsOf(raised)));
  };
  const best = at(Infinity).boundMs;
  if (best > bottleneck.boundMs * (1 - NEGLIGIBLE)) return undefined;
  const least = (enoughMs: number): number | undefined => {
    const isEnough = (limit: number): boolean => {
      const bound = at(limit);
      return bound.boundMs <= enoughMs || (bound.setting !== bottleneck.setting && bound.boundMs < bottleneck.boundMs);
    };
    let [low, high] = [Math.floor(from), Math.max(1, 2 * Math.floor(from))];
    while (!isEnough(high)) {
      if (high > FARTHEST * Math.max(1, from)) return undefined;
      [low, high] = [high, 2 * high];
    }
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (isEnough(middle)) high = middle;
      else low = middle;
    }
    return high;
  };
  const to = least(best) ?? least(best + NEGLIGIBLE * (bottleneck.boundMs - best));
  if (to === undefined) return undefined;
  const twice = Math.max(1, 2 * Math.floor(from));
  const isStep = to > twice && at(twice).boundMs < bottleneck.boundMs;
  const reached = isStep ? twice : to;
  const { boundMs, setting: next } = at(reached);
  return { setting, from, to: reached, isStep, makespanMs: boundMs, next };
}

function limitOf({ batches, stages, limits }: ThroughputPlan, setting: string): number {
  const stage = stages.find(({ name }) => setting === `stages.${name}.concurrency`);
  if (stage) return check.orDefault(stage.concurrency, Infinity);
  if (setting === 'batches.concurrency') return check.orDefault(batches?.concurrency, Infinity);
  return check.orDefault(limits?.[setting.slice('limits.'.length) as 'concurrency' | 'requestsPerMinute' | 'tokensPerMinute'], Infinity);
}

function withLimit(plan: ThroughputPlan, setting: string, limit: number): ThroughputPlan {
  const stages = plan.stages.map((stage) => (setting === `stages.${stage.name}.concurrency` ? { ...stage, concurrency: limit } : stage));
  if (setting === 'batches.concurrency') return { ...plan, batches: { concurrency: limit } };
  if (setting.startsWith('limits.')) return { ...plan, limits: { ...plan.limits, [setting.slice('limits.'.length)]: limit } };
  return { ...plan, stages };
}

/** The first of the slowest. */
function slowest(bounds: readonly Bound[]): Bound {
  return bounds.reduce((worst, bound) => (bound.boundMs > worst.boundMs ? bound : worst));
}

/** The next whole number; what is a whole number but for the arithmetic stays it. */
function whole(value: number): number {
  return Math.max(0, Math.ceil(value - 1e-9));
}

function sum<T>(all: readonly T[], amount: (one: T) => number): number {
  return all.reduce((total, one) => total + amount(one), 0);
}

function perSecond(items: number, ms: number): number {
  return ms === 0 ? Infinity : (items * 1000) / ms;
}

const STAGE: readonly string[] = ['name', 'concurrency', 'scope', 'itemsPerDocument', 'callsPerItem', 'secondsPerCall', 'tokensPerCall'];
const LIMITS: readonly string[] = [
  'concurrency',
  'requestsPerMinute',
  'burst',
  'tokensPerMinute',
  'burstSeconds',
  'headroom',
  'maxQueued',
  'lanes',
];

function checkPlan(plan: ThroughputPlan): void {
  check.onlyKnown(NAME, plan, ['documents', 'batches', 'stages', 'limits']);
  const { documents, batches = {}, stages, limits = {} } = plan;
  finite('documents', documents);
  check.onlyKnown(NAME, batches, ['concurrency'], 'batches', 'batches.');
  if (batches.concurrency !== undefined) check.positive(NAME, 'batches.concurrency', batches.concurrency);
  if (!Array.isArray(stages) || stages.length === 0) throw new FlowConfigError(NAME, 'stages', 'a list of at least one stage', stages);
  for (const [i, stage] of (stages as readonly StageLoad[]).entries()) {
    const within = `stages[${String(i)}].`;
    check.onlyKnown(NAME, stage, STAGE, within.slice(0, -1), within);
    check.nonEmpty(NAME, `${within}name`, stage.name);
    check.positive(NAME, `${within}concurrency`, check.orDefault(stage.concurrency, Infinity));
    check.oneOf('shared', 'perBatch')(NAME, `${within}scope`, check.orDefault(stage.scope, 'shared'));
    for (const name of ['itemsPerDocument', 'callsPerItem', 'secondsPerCall', 'tokensPerCall'] as const) {
      finite(`${within}${name}`, check.orDefault(stage[name], 0));
    }
  }
  check.onlyKnown(NAME, limits, LIMITS, 'limits', 'limits.');
  check.positive(NAME, 'limits.concurrency', check.orDefault(limits.concurrency, Infinity));
  for (const name of ['requestsPerMinute', 'tokensPerMinute', 'burst', 'burstSeconds'] as const) {
    check.positive(NAME, `limits.${name}`, check.orDefault(limits[name], 1));
  }
  check.countFromZero(NAME, 'limits.maxQueued', check.orDefault(limits.maxQueued, 0));
  check.ratio(NAME, 'limits.headroom', check.orDefault(limits.headroom, 1), 0.01);
}

function finite(option: string, value: number): void {
  if (typeof value !== 'number' || !(value >= 0 && value < Infinity))
    throw new FlowConfigError(NAME, option, 'a finite number >= 0', value);
}
