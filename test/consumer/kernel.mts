import {
  Aimd,
  type RepairCallbacks,
  type Judgement,
  bid,
  promote,
  leave,
  nextBidAt,
  shrinkAt,
  BACKOFF_DEFAULTS,
  BadItemSearch,
  Bag,
  type BackoffOptions,
  Batch,
  type BatchHost,
  BatchMachine,
  type BatchNote,
  type BatchRules,
  type BreakerState,
  backoffDelayMs,
  Chain,
  Circuit,
  type CircuitOptions,
  type CircuitState,
  type Classify,
  type ClassifyContext,
  classifyByStatus,
  DeadlineHeap,
  type Discipline,
  type DivideInput,
  type DivideLimits,
  type DividePlan,
  dividePlan,
  type ErrorClass,
  type FailedJob,
  type Failure,
  type Fairness,
  FIFO,
  type Filler,
  type HeadersLike,
  ItemFailure,
  ItemMachine,
  type ItemRules,
  isWithinBudget,
  Job,

  KeyLane,
  type LaneItem,
  type LaneClaim,
  type LaneRule,
  LanesQueue,
  type LimitRange,
  type LimitSample,
  Line,
  type Linked,
  squeezeIn,
  victims,
  createRepairer,
  mostLeft,
  type OrderedPlace,
  type Origin,
  type Order,
  type Overflow,
  parseRateReports,
  parseRetryAfterMs,
  blamed,
  ONE_LINE,
  type Queue,
  type QueueRule,
  RateLesson,
  type RateReport,
  type RateUnit,
  type Refusal,
  ReorderBuffer,
  type Repair,
  type RepairNote,
  type ItemNote,
  type RepairRule,
  Backlog,
  retryDelayMs,
  SameFault,
  type Search,
  type SearchLimits,
  type SearchSpent,
  type SearchStep,
  SequenceBuffer,
  type SequenceWait,
  SlidingWindow,
  type Slotted,
  sharedRounds,
  strictWithFloor,
  TokenBucket,
  type Verdict,
  type Waiter,
  type GrantQueue,
  type GrantQueueRule,
} from 'sluice/operators/kernel';

// Decisions about a backend
const opens = { share: 0.5, minCalls: 10, windowMs: 30_000, inARow: Infinity };
const circuitOptions: CircuitOptions = { ...opens, probes: 1, probeShare: 1, openMs: 5000, maxOpenMs: 60_000 };
const circuit = new Circuit(circuitOptions);
same<number | undefined>()(circuit.enter(0));
same<CircuitState>()(circuit.snapshot(0).state);
same<number>()(circuit.snapshot(0).probing);
const saved: BreakerState = circuit.save(0);
circuit.restore(saved, 10);

const range: LimitRange = { initial: 4, min: 1, max: 64 };
const sample: LimitSample = { startedAt: 0, endedAt: 100, inFlight: 4, outcome: 'ok' };
same<number>()(new Aimd(range, 0.75).add(sample));

// Containers
const backlog = new Backlog<string>();
backlog.push('a');
same<string | undefined>()(backlog.shift());
const bag = new Bag<Slotted & { readonly name: string }>();
bag.add({ slot: -1, name: 'a' });
same<readonly (Slotted & { readonly name: string })[]>()(bag.items);
const heap = new DeadlineHeap<string>();
heap.push(10, 'later');
same<number>()(heap.peekAt());
const buffer = new ReorderBuffer<string>((item) => backlog.push(item));
const place: OrderedPlace<string> = buffer.enter('key');
buffer.leave(place);
export const linked = <T extends Linked<T>>(members: readonly T[]): Chain<T> => {
  const chain = new Chain<T>();
  for (const member of members) chain.push(member);
  return chain;
};
const sequence = new SequenceBuffer<string>(0);
sequence.hold(2, 'early', 0);
same<SequenceWait | undefined>()(sequence.oldest);

// Queues
interface Entry extends Waiter<Entry> {
  readonly name: string;
}
const claims: readonly LaneClaim[] = [
  { share: 2, floor: undefined },
  { share: 1, floor: 0.1 },
];
const fairness: Fairness = sharedRounds(true);
const discipline: Discipline = strictWithFloor(0.1).create(claims, 8, [0, 0]);
const filler: Filler = { fill: (_lane, most) => most, isOpen: () => true, given: () => 0 };
discipline.fill(8, filler);
const queue: Queue<Entry> = new LanesQueue<Entry>(claims, fairness, 8, false);
same<Entry[]>()(queue.plan(0, 8, Infinity));
const overflow: Overflow = 'dropOldest';
same<readonly Entry[]>()(victims(queue, 0, overflow, true));
same<string[]>()(squeezeIn(backlog, 'b', overflow));
same<string[]>()(squeezeIn(backlog, 'b', overflow, () => backlog.length < 1));
const line = new Line<Entry>();
same<Entry | undefined>()(line.head());
const rule: QueueRule<unknown> = FIFO;
const turnsRule: GrantQueueRule<unknown> = ONE_LINE;
const turns: GrantQueue<Entry> = turnsRule.create<Entry>(1);
same<number>()(turns.lead());
const laneRule: LaneRule | undefined = rule.lanes[0];
export const opaque = (order: Order<string>): Readonly<Order<string>> => order;
export const order = (given: ReorderBuffer<string>): string => `${String(given.held)} behind ${String(laneRule?.name)}`;

// What waits under one key
const lane = new KeyLane<string>('customer', 1);
lane.push('item', 0, 0, undefined);
same<string>()(lane.shift());

// Machines
const items: ItemRules = { concurrency: 2, isKeyed: true, maxKeys: 10, maxQueued: 100, overflow };
const machine = new ItemMachine<string>(items);
same<Refusal>()(machine.refusal(machine.find('customer'), 0));
same<LaneItem<string>>()(machine.drop(lane));
const batchRules: BatchRules<string> = {
  maxSize: 2,
  maxWeight: 10,
  maxQueued: 100,
  overflow,
  queue: FIFO,
  order: undefined,
  random: () => 0.5,
  repair: [],
  timeoutMs: 1000,
  classify: (): Verdict => ({ class: 'fatal' }),
};
const notes: BatchNote[] = [];
export const itemNote = (note: ItemNote): BatchNote => note;
const host: BatchHost<string, number> = {
  operator: 'mine',
  tell: (note) => notes.push(note),
  deadlineError: () => new Error('late'),
  overflowError: () => new Error('full'),
  pause: () => undefined,
  stop: () => undefined,
};
const batches = new BatchMachine<string, number>(batchRules, host);
const job = new Job<string, number>('item');
same<Batch<string, number>>()(batches.take(0, Infinity));
export const failed = (batch: Batch<string, number>): void => {
  batches.succeeded(batch, [1, new ItemFailure(new Error('bad'))]);
};
export const gone = (job: Job<string, number>): readonly number[] => {
  leave(batches, job);
  promote(batches, job, 0);
  return [bid(batches, 100), shrinkAt(batches), nextBidAt(batches)];
};
export const judged = (callbacks: RepairCallbacks, context: Parameters<RepairCallbacks['verdict']>[3]): Judgement => ({
  verdict: callbacks.verdict('mine', () => ({ class: 'fatal' }), undefined, context),
  reason: undefined,
});
export const isBatch = (value: unknown): boolean => value instanceof Batch || value === job;

// Limits and delays
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
const backoff: BackoffOptions = { ...BACKOFF_DEFAULTS, initialMs: 10, jitter: 'full' };
same<number>()(backoffDelayMs(1, backoff, 0.5) + retryDelayMs(1, undefined, backoff, 0.5));
same<boolean>()(isWithinBudget(1, 10, 0.2));
const headers: HeadersLike = { 'retry-after': '1' };
same<number | undefined>()(parseRetryAfterMs(headers));
same<RateReport[]>()(parseRateReports(headers));

// Repairs
const context: ClassifyContext = { aborted: false, attempt: 1, size: 2 };
const classify: Classify = classifyByStatus;
const kind: ErrorClass = classify(new Error('no'), context).class;
export const again: RepairRule = {
  classify,
  createRepairer,
  failed: <J extends FailedJob>({ jobs, verdict: { class: found } }: Failure<J>): Repair<J> | undefined =>
    found === kind ? { parts: [jobs] } : undefined,
};
export const noted = ({ note }: Repair<FailedJob>): RepairNote | undefined => note;
export const over = (search: Search<FailedJob>, origin: Origin<FailedJob>): Repair<FailedJob> => search.next(undefined, origin);

// Divide and conquer
const divideLimits: DivideLimits = { factor: 4, maxBlameRounds: 3, maxCalls: 100, maxDepth: 16 };
const jobs = ['0', '1', '2', '3'].map((id) => ({ id, weight: 1 }));
type Blamable = (typeof jobs)[number];
const input: DivideInput<Blamable> = { blameRounds: 0, calls: 1, depth: 0, size: 4, jobs, named: blamed(['1'], jobs) };
const plan: DividePlan<Blamable> = dividePlan(input, divideLimits);
same<readonly (readonly Blamable[])[]>()(plan.parts);
const searchLimits: SearchLimits = { confirm: true, maxBlameRounds: 3, maxCalls: 100, maxDepth: 16 };
const spent: SearchSpent = { alone: 0, blameRounds: 0, calls: 1 };
const search = new BadItemSearch<string>(0, searchLimits, () => true);
const step: SearchStep<string> = search.succeeded(['a'], spent);
same<readonly string[]>()(step.send);
const fault = new SameFault(4);
fault.failed(new Error('bad'), 2, 0);
same<boolean>()(fault.isHopeless);
