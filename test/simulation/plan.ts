import type { Order, Oversize, RetryOptions, SplitOptions, Window } from '../../operators/support/batching/batch-options.js';
import type { LaneOptions, Overflow } from '../../operators/support/types.js';
import { Dice } from './dice.js';

/**
 * What may go wrong, or get in the way, in a schedule, and how likely a schedule is to have it. Each must strike in a fifth of all
 * schedules at least, so what depends on a form, or on a moment that may not come, is drawn more often.
 */
const CHANCES = {
  // what the worker does
  transient: 0.28,
  throttled: 0.28,
  fatal: 0.26,
  never: 0.27,
  wrongShape: 0.25,
  empty: 0.25,
  syncThrow: 0.28,
  syncAnswer: 0.3,
  angryAbort: 0.45,
  meddlingWork: 0.3,
  tooLarge: 0.3,
  itemRetry: 0.3,
  classifyThrow: 0.26,
  // items that always fail, and how the worker blames them
  blameRight: 0.38,
  blameWrong: 0.45,
  blameDoubled: 0.38,
  blameOutOfRange: 0.38,
  blameNone: 0.32,
  partial: 0.32,
  // what callers do
  throwingCallback: 0.28,
  throwingWindow: 0.62,
  deadline: 0.28,
  overflow: 0.36,
  reentrant: 0.3,
  limitChange: 0.3,
  rateChange: 0.5,
  sharedLimiter: 0.6,
  limiterLanes: 0.5,
  unsubscribe: 0.3,
  sourceError: 0.3,
  flush: 0.4,
  close: 0.38,
  drain: 0.46,
  cancelBySignal: 0.4,
  cancelByUnsubscribe: 0.32,
  dedupe: 0.5,
  hurry: 0.45,
} as const;
export type Fault = keyof typeof CHANCES;
export const FAULTS = Object.keys(CHANCES) as readonly Fault[];
export type Form = 'batchMap' | 'batchMapFrom' | 'createBatcher';

/** What every schedule offers to `batchMap` at least. */
export const BATCH_MAP_ITEMS = 50;

export interface Item {
  readonly n: number;
  readonly lane: string;
  readonly weight: number;
  readonly poison: boolean;
  /** Loads with the same key may share one item. */
  readonly key: number;
  readonly flaw: 'weigh' | 'badWeight' | 'lane' | 'unknownLane' | 'id' | 'deadline' | 'badDeadline' | 'dedupe' | undefined;
  /** A load that names its lane itself. */
  readonly namesLane: boolean;
  /** Its own deadline, where the operator has none for all. */
  readonly deadlineMs: number | undefined;
  /** A batch ends there. */
  readonly closes: 'before' | 'after' | false;
}

/** What an item that is too heavy is cut into: items of their own, numbered with a tenth each. */
export function partsOf(item: Item): Item[] {
  const weights = item.n % 2 === 0 ? [item.weight / 2, item.weight / 2] : [30, 30, item.weight - 60];
  return weights.map((weight, i) => ({ ...item, n: item.n + (i + 1) / 10, weight, poison: item.poison && i === 0 }));
}

/** The number of the item this is, or is a part of. */
export function wholeOf({ n }: Item): number {
  return Math.floor(n);
}

export type Contract = 'array' | 'map' | 'partial' | 'settled';

/** One operator under test: its form and its options, as plain data. */
export interface OperatorPlan {
  readonly form: Form;
  readonly lanes: readonly LaneOptions[] | undefined;
  readonly maxSize: number;
  readonly maxWeight: number;
  readonly weighs: boolean;
  readonly oversize: Oversize;
  readonly hardMaxWeight: number;
  /** Undefined under a shared limiter. */
  readonly concurrency: number | undefined;
  readonly window: Window;
  /** From when on the window throws. */
  readonly windowFailsAtMs: number;
  readonly retry: Required<Pick<RetryOptions, 'maxAttempts' | 'initialMs' | 'budget'>> | false;
  readonly split: SplitOptions | false;
  readonly attemptTimeoutMs: number;
  readonly itemDeadlineMs: number;
  readonly maxQueued: number;
  readonly overflow: Overflow;
  readonly burst: 'asap' | 'sync';
  readonly contract: Contract;
  readonly named: boolean;
  readonly dedupes: boolean;
  readonly onSourceError: 'abort' | 'drain';
  readonly order: Order;
  readonly failFast: boolean;
  readonly closes: boolean;
}

export interface LimiterPlan {
  readonly concurrency: number;
  readonly requestsPerMinute: number;
  readonly tokensPerMinute: number;
  readonly costAboveCapacity: 'borrow' | 'reject';
  readonly lanes: readonly LaneOptions[] | undefined;
}

/** Something that happens to operator `op` at a time. */
export type Step = { readonly atMs: number; readonly op: number } & (
  | { readonly do: 'items'; readonly items: readonly Item[] }
  | { readonly do: 'cancel'; readonly n: number }
  | { readonly do: 'complete' | 'sourceError' | 'unsubscribe' | 'flush' | 'close' | 'drain' | 'outsider' }
  | { readonly do: 'limit'; readonly concurrency: number }
  | { readonly do: 'rate'; readonly requestsPerMinute: number; readonly tokensPerMinute: number }
);

export interface Plan {
  readonly seed: number;
  readonly faults: ReadonlySet<Fault>;
  readonly operators: readonly OperatorPlan[];
  readonly limiter: LimiterPlan | undefined;
  readonly steps: readonly Step[];
  /** Loads that are cancelled by their signal instead of by unsubscribing. */
  readonly signalled: ReadonlySet<number>;
  readonly items: number;
  readonly latency: { readonly fromMs: number; readonly toMs: number; readonly stepMs: number };
  readonly providerLimit: number;
}

const POISONED = [
  'blameRight',
  'blameWrong',
  'blameDoubled',
  'blameOutOfRange',
  'blameNone',
  'partial',
] as const satisfies readonly Fault[];

export function drawPlan(seed: number): Plan {
  const dice = new Dice(seed);
  const faults = new Set(FAULTS.filter((fault) => dice.chance(CHANCES[fault])));
  const forms: readonly Form[] = ['batchMap', dice.pick(['createBatcher', 'createBatcher', 'createBatcher', 'batchMapFrom'])];
  const poisonRate = POISONED.some((fault) => faults.has(fault)) ? dice.pick([0.05, 0.1]) : 0;
  const latency = drawLatency(dice);
  const steps: Step[] = [];
  const signalled = new Set<number>();
  let made = 0;
  let lastMs = 0;
  const operators = forms.map((form, op) => {
    const operator = drawOperator(dice, form, faults);
    const count = form === 'batchMap' ? dice.int(BATCH_MAP_ITEMS + 5, dice.chance(0.1) ? 150 : 75) : dice.int(25, 45);
    const items = Array.from({ length: count }, () => drawItem(dice, made++, operator, faults, poisonRate));
    const { lateMs, endMs } = drawArrivals(
      dice,
      op,
      items,
      latency.stepMs,
      form === 'batchMap' ? BATCH_MAP_ITEMS : Math.floor(count * 0.9),
      steps,
    );
    lastMs = Math.max(lastMs, endMs);
    if (form === 'createBatcher') drawCallers(dice, op, items, faults, latency.stepMs, steps, signalled);
    drawInterventions(dice, op, form, faults, lateMs, endMs, steps);
    const fails = faults.has('throwingWindow') && (form !== 'batchMap' || dice.chance(0.3));
    return fails ? { ...operator, windowFailsAtMs: dice.int(lateMs, endMs) + 1 } : operator;
  });
  const limiter = faults.has('sharedLimiter') ? drawLimiter(dice, faults) : undefined;
  if (faults.has('limitChange'))
    for (let i = 0; i < 4; i++)
      steps.push({ atMs: dice.int(1, lastMs + 100), op: dice.int(0, 1), do: 'limit', concurrency: dice.int(1, 6) });
  if (limiter && faults.has('rateChange')) {
    for (let i = 0; i < 3; i++) {
      const rates = {
        requestsPerMinute: dice.pick([Infinity, 300, 600, 3000]),
        tokensPerMinute: dice.pick([Infinity, 6000, 20_000, 60_000]),
      };
      steps.push({ atMs: dice.int(1, lastMs + 100), op: 0, do: 'rate', ...rates });
    }
  }
  if (limiter) for (let i = 0; i < 6; i++) steps.push({ atMs: dice.int(0, lastMs + 500), op: 0, do: 'outsider' });
  // A stable sort: what was drawn first happens first in a frame.
  steps.sort((a, b) => a.atMs - b.atMs);
  return {
    seed,
    faults,
    operators,
    limiter,
    steps,
    signalled,
    items: made,
    latency,
    providerLimit: faults.has('tooLarge') ? dice.pick([70, 120]) : Infinity,
  };
}

function drawLatency(dice: Dice): Plan['latency'] {
  const fromMs = dice.pick([1, 20, 50]);
  return { fromMs, toMs: fromMs + dice.pick([0, 50, 250]), stepMs: dice.pick([1, 1, 10, 50]) };
}

function drawLimiter(dice: Dice, faults: ReadonlySet<Fault>): LimiterPlan {
  return {
    concurrency: dice.pick([1, 2, 3, 5, Infinity]),
    requestsPerMinute: dice.pick([Infinity, Infinity, 300, 600, 3000]),
    tokensPerMinute: dice.pick([Infinity, Infinity, 6000, 20_000, 60_000]),
    costAboveCapacity: dice.pick(['borrow', 'borrow', 'reject']),
    lanes: faults.has('limiterLanes')
      ? [0, 1, 2].map((i) => ({ name: `P${i}`, ...(i > 0 && dice.chance(0.5) && { floor: dice.pick([0, 0.1, 0.3]) }) }))
      : undefined,
  };
}

/** When the items come; answers when most of them have, and when the last one has. */
function drawArrivals(
  dice: Dice,
  op: number,
  items: readonly Item[],
  stepMs: number,
  most: number,
  steps: Step[],
): { lateMs: number; endMs: number } {
  const pattern = dice.pick(['burst', 'trickle', 'trickle', 'onOff'] as const);
  const gapMs = dice.pick([2, 8, 25]) * (pattern === 'onOff' ? 15 : pattern === 'burst' ? 6 : 1);
  let atMs = 0;
  let lateMs = 0;
  for (let from = 0; from < items.length; ) {
    const left = items.length - from;
    const size = Math.min(left, pattern === 'burst' ? dice.pick([left, 20, 7]) : pattern === 'onOff' ? dice.int(3, 15) : dice.int(1, 2));
    steps.push({ atMs, op, do: 'items', items: items.slice(from, from + size) });
    if (from < most) lateMs = atMs;
    from += size;
    if (from < items.length) atMs += stepMs * Math.max(1, Math.round((dice.next() * 2 * gapMs) / stepMs));
  }
  return { lateMs, endMs: atMs };
}

/** Callers who leave. */
function drawCallers(
  dice: Dice,
  op: number,
  items: readonly Item[],
  faults: ReadonlySet<Fault>,
  stepMs: number,
  steps: Step[],
  signalled: Set<number>,
): void {
  const arrivals = steps.flatMap((step) => (step.op === op && step.do === 'items' ? [step] : []));
  for (const { n } of items) {
    const bySignal = faults.has('cancelBySignal') && dice.chance(0.15);
    if (bySignal) signalled.add(n);
    if (!bySignal && !(faults.has('cancelByUnsubscribe') && dice.chance(0.15))) continue;
    const cameMs = arrivals.find((step) => step.items.some((item) => item.n === n))?.atMs ?? 0;
    steps.push({ atMs: cameMs + stepMs * Math.round(dice.int(0, 120) / stepMs), op, do: 'cancel', n });
  }
}

/** What is done to the operator as a whole: late enough that most of the schedule has happened. */
function drawInterventions(
  dice: Dice,
  op: number,
  form: Form,
  faults: ReadonlySet<Fault>,
  lateMs: number,
  endMs: number,
  steps: Step[],
): void {
  const late = (): number => dice.int(lateMs, endMs + 100);
  if (form === 'createBatcher') {
    if (faults.has('flush')) for (let i = 0; i < 6; i++) steps.push({ atMs: dice.int(0, endMs + 100), op, do: 'flush' });
    if (faults.has('close')) steps.push({ atMs: dice.int(lateMs, endMs) + dice.int(1, 40), op, do: 'close' });
    if (faults.has('drain')) steps.push({ atMs: dice.int(lateMs, endMs) + dice.int(1, 40), op, do: 'drain' });
    return;
  }
  // Any earlier and `batchMap` would not see its items.
  if (faults.has('flush')) for (let i = 0; i < 3; i++) steps.push({ atMs: dice.int(0, endMs + 100), op, do: 'flush' });
  if (faults.has('unsubscribe')) steps.push({ atMs: (form === 'batchMap' ? late() : dice.int(0, endMs + 100)) + 1, op, do: 'unsubscribe' });
  if (faults.has('sourceError')) steps.push({ atMs: dice.int(lateMs, endMs) + 1, op, do: 'sourceError' });
  steps.push({ atMs: endMs + dice.pick([1, 1, 2, 60]), op, do: 'complete' });
}

function drawOperator(dice: Dice, form: Form, faults: ReadonlySet<Fault>): OperatorPlan {
  const overflows = faults.has('overflow') && form !== 'batchMapFrom';
  const loads = form === 'createBatcher';
  const lanes = loads && faults.has('hurry') ? dice.int(2, 3) : dice.pick([0, 0, 1, 2, 3]);
  const tooLarge = faults.has('tooLarge');
  const dedupes = loads && (faults.has('dedupe') || faults.has('hurry'));
  return {
    form,
    lanes: lanes === 0 ? undefined : Array.from({ length: lanes }, (_, i) => drawLane(dice, i, overflows)),
    maxSize: dice.pick(tooLarge ? [5, 8, 20] : [1, 3, 3, 5, 5, 8, 8, 20]),
    maxWeight: dice.pick(tooLarge ? [Infinity, 400] : [Infinity, 50, 150, 400]),
    weighs: tooLarge || dice.chance(0.5),
    oversize: dice.pick<Oversize>(
      dedupes
        ? ['alone', 'reject', 'drop']
        : ['alone', 'reject', 'split', 'split', 'drop', ...(dice.chance(0.1) ? (['error'] as const) : [])],
    ),
    hardMaxWeight: dice.pick([Infinity, Infinity, Infinity, Infinity, 60]),
    concurrency: faults.has('sharedLimiter') ? undefined : dice.int(1, 5),
    window: dice.pick<Window>([
      { kind: 'natural' },
      { kind: 'fixed', ms: 20 },
      { kind: 'graded', maxMs: 100 },
      ({ executing }) => executing * 7,
    ]),
    windowFailsAtMs: Infinity,
    retry: dice.chance(0.1)
      ? false
      : { maxAttempts: dice.int(1, 4), initialMs: dice.pick([0, 10, 200]), budget: dice.pick([Infinity, Infinity, 0.5]) },
    split: dice.chance(0.1)
      ? false
      : dice.pick<SplitOptions>([
          ...[{}, {}, {}, { factor: 2 }, { factor: Infinity }, { maxBlameRounds: 0 }, { maxCalls: 4 }, { maxDepth: 1 }],
          ...([
            { strategy: 'sequential' },
            { strategy: 'sequential', confirm: false },
            { strategy: 'sequential', maxCalls: 6, maxBlameRounds: 1 },
          ] as const),
        ]),
    attemptTimeoutMs: faults.has('never') ? dice.pick([100, 250, 400]) : 30_000,
    itemDeadlineMs: faults.has('deadline') ? dice.pick([Infinity, Infinity, Infinity, 200, 600]) : Infinity,
    maxQueued: overflows ? dice.pick(loads ? [10, 20] : [20, 30]) : form === 'batchMapFrom' ? dice.pick([1, 10, 80]) : 1000,
    // In a stream `error` ends everything: rarely, or nothing else would be seen.
    overflow: overflows
      ? dice.pick<Overflow>([
          ...(loads || dice.chance(0.1) ? (['error'] as const) : []),
          'dropOldest',
          'dropNewest',
          'dropLowest',
          'latest',
        ])
      : 'error',
    burst: dice.pick(['asap', 'asap', 'sync']),
    ...drawContract(dice, faults),
    dedupes,
    onSourceError: dice.pick(['abort', 'drain', 'drain']),
    order: dice.pick<Order>(['completion', 'completion', 'input', 'perKey']),
    failFast: !loads && dice.chance(0.04),
    closes: dice.chance(0.3),
  };
}

function drawContract(dice: Dice, faults: ReadonlySet<Fault>): Pick<OperatorPlan, 'contract' | 'named'> {
  // Only these two can say of one item that it may be sent again.
  const contract = dice.pick<Contract>(
    faults.has('itemRetry') ? ['array', 'settled'] : ['array', 'array', 'map', 'partial', 'partial', 'settled'],
  );
  return { contract, named: contract === 'map' || dice.chance(0.4) };
}

function drawLane(dice: Dice, i: number, overflows: boolean): LaneOptions {
  return {
    name: `P${i}`,
    ...(dice.chance(0.3) && { maxWaitMs: dice.pick([0, 15, 60]) }),
    ...(overflows && dice.chance(0.3) && { maxQueued: dice.pick([4, 12]) }),
    ...(i > 0 && dice.chance(0.4) && { floor: dice.pick([0, 0.1, 0.3]) }),
    ...(dice.chance(0.3) && { piggyback: false }),
  };
}

export function drawItem(
  dice: Dice,
  n: number,
  { form, lanes, weighs, named, dedupes, itemDeadlineMs, closes }: OperatorPlan,
  faults: ReadonlySet<Fault>,
  poisonRate: number,
): Item {
  const loads = form === 'createBatcher';
  const flaws: Item['flaw'][] = [
    'deadline',
    'badDeadline',
    ...(weighs ? (['weigh', 'badWeight'] as const) : []),
    ...(lanes ? (['lane', 'unknownLane'] as const) : []),
    ...(named ? (['id'] as const) : []),
    ...(dedupes ? (['dedupe'] as const) : []),
  ];
  const flaw = faults.has('throwingCallback') && dice.chance(0.06) ? dice.pick(flaws) : undefined;
  return {
    n,
    lane: lanes ? dice.pick(lanes).name : 'P0',
    weight: weighs ? dice.pick([0, 1, 5, 5, 20, 40, 80]) : 1,
    poison: dice.chance(poisonRate),
    key: dice.int(0, 7),
    flaw,
    namesLane: loads && lanes !== undefined && flaw === undefined && dice.chance(faults.has('hurry') ? 0.7 : 0.2),
    deadlineMs:
      itemDeadlineMs === Infinity && faults.has('deadline') && flaw === undefined && dice.chance(0.2)
        ? dice.pick([30, 100, 400])
        : undefined,
    closes: closes && flaw === undefined && dice.chance(0.2) ? dice.pick(['before', 'after']) : false,
  };
}
