import {
  Aimd,
  BadItemSearch,
  Bag,
  BatchKernel,
  Circuit,
  type CircuitOptions,
  type CircuitState,
  type BackoffOptions,
  backoffDelayMs,
  DeadlineHeap,
  type DivideInput,
  type DivideLimits,
  type DividePlan,
  dividePlan,
  FaultWatch,
  type FillLimits,
  KeyedLanes,
  type KeyFairness,
  type KeyLane,
  type LaneFairness,
  LaneQueue,
  LaneSet,
  type LimitRange,
  type LimitSample,
  mostLeft,
  type OrderedPlace,
  PriorityQueue,
  RateLesson,
  type RateReport,
  type RateUnit,
  ReorderBuffer,
  Ring,
  retryDelayMs,
  type SearchLimits,
  type SearchSpent,
  type SearchStep,
  SequenceBuffer,
  type SequenceWait,
  SlidingWindow,
  type Slotted,
  TokenBucket,
  trustedBlame,
} from 'sluice/operators/kernel';

// Decisions about a backend
const circuitOptions: CircuitOptions = { failureRatio: 0.5, minCalls: 10, windowMs: 30_000, openMs: 5000, maxOpenMs: 60_000, probes: 1 };
const circuit = new Circuit(circuitOptions);
same<number | undefined>()(circuit.enter(0));
same<CircuitState>()(circuit.state);

const range: LimitRange = { initial: 4, min: 1, max: 64 };
const sample: LimitSample = { startedAt: 0, endedAt: 100, inFlight: 4, outcome: 'ok' };
same<number>()(new Aimd(range, 0.75).add(sample));

// Containers
const ring = new Ring<string>();
ring.push('a');
same<string | undefined>()(ring.shift());
const bag = new Bag<Slotted & { readonly name: string }>();
bag.add({ slot: -1, name: 'a' });
same<readonly (Slotted & { readonly name: string })[]>()(bag.items);
const heap = new DeadlineHeap<string>();
heap.push(10, 'later');
same<number>()(heap.peekAt());
const queue = new PriorityQueue<string>(3);
queue.push(0, 'urgent');
same<string | undefined>()(queue.peek());
const buffer = new ReorderBuffer<string>((item) => ring.push(item));
const place: OrderedPlace<string> = buffer.enter('key');
buffer.leave(place);

const sequence = new SequenceBuffer<string>(0);
sequence.hold(2, 'early', 0);
same<SequenceWait | undefined>()(sequence.oldest);

// Lanes
const fairness: LaneFairness = { kind: 'wdrr', weights: [2, 1] };
const lanes = new LaneQueue<string>(fairness, 10, () => true);
const limits: FillLimits = { places: 10, rides: true };
const ask = (item: string, lane: number): boolean => item.length > lane;
lanes.plan(0, limits, ask);
const set: LaneSet = lanes.nonEmpty;
same<number>()(set.first());
same<boolean>()(new LaneSet(2).has(1));
const keyFairness: KeyFairness = 'roundRobin';
const keyed = new KeyedLanes<string>(keyFairness);
const lane: KeyLane<string> = keyed.open('customer', 1);
keyed.push(lane, 'item', 0);

// Batches, limits and delays
const batches = new BatchKernel<string>({ maxSize: 2, maxWeight: 10 });
same<'size' | 'weight' | undefined>()(batches.add('a', 1));
const bucket = new TokenBucket(60, 10, 0);
const unit: RateUnit = 'tokens';
const told: RateReport = { unit, limit: 60, remaining: 5, resetMs: 1000, windowMs: undefined };
const rateLesson = new RateLesson();
same<boolean>()(rateLesson.report(0, [told]));
same<number>()(rateLesson.perMinute(unit) + rateLesson.share + mostLeft([told], unit, 0, 0));
same<number | undefined>()(rateLesson.refused(0, 0, 0.5));
same<boolean>()(bucket.canPay(1, 0));
const minute = new SlidingWindow(60, 60, 0);
minute.pay(1, 0);
minute.correct(1, 0, 10);
same<number>()(minute.payableAt(60, 10));
const backoff: BackoffOptions = { initialMs: 10, factor: 2, maxMs: 100, jitter: 'full' };
same<number>()(backoffDelayMs(1, backoff, 0.5) + retryDelayMs(1, undefined, backoff, 0.5));

// Divide and conquer
const divideLimits: DivideLimits = { factor: 4, maxBlameRounds: 3, maxCalls: 100, maxDepth: 16 };
const input: DivideInput = { blameRounds: 0, calls: 1, depth: 0, size: 4, weights: [1, 1, 1, 1] };
const plan: DividePlan = dividePlan(input, divideLimits);
same<readonly (readonly number[])[]>()(plan.parts);
same<ReadonlySet<number> | undefined>()(trustedBlame([1], 4));
const searchLimits: SearchLimits = { confirm: true, maxBlameRounds: 3, maxCalls: 100, maxDepth: 16 };
const spent: SearchSpent = { alone: 0, blameRounds: 0, calls: 1 };
const search = new BadItemSearch<string>(0, searchLimits, () => true);
const step: SearchStep<string> = search.succeeded(['a'], spent);
same<readonly string[]>()(step.send);
const watch = new FaultWatch(4);
watch.failed(new Error('bad'), 2, 0);
same<boolean>()(watch.isHopeless);
