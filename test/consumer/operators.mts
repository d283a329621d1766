import { from, map, type Observable, type OperatorFunction, of, Subject } from 'rxjs';
import {
  AttemptTimeoutError,
  type BatchResult,
  type Batcher,
  type BatcherOptions,
  type BatcherSnapshot,
  type BatchMapFromOptions,
  type BatchMapOptions,
  type BatchOptions,
  BatchShapeError,
  type BatchWork,
  type BulkheadMapOptions,
  batch,
  batchMap,
  batchMapFrom,
  bulkheadMap,
  CallbackError,
  type CallContext,
  type Classify,
  type ClassifyContext,
  ClosedError,
  type Cost,
  classifyError,
  createBatcher,
  createLimiter,
  DeadlineError,
  divideAndConquer,
  type ErrorClass,
  type Fairness,
  FlowConfigError,
  FlowError,
  type FlowErrorCode,
  type FlowEvent,
  type FlowSink,
  type Fulfilled,
  fromHeaders,
  fromStream,
  type Guard,
  GuardRefusedError,
  type HedgeOptions,
  hedge,
  type ItemContext,
  ItemTooHeavyError,
  perMinute,
  isFlowError,
  lanes,
  type LaneBatch,
  type LaneOptions,
  LaneUnknownError,
  type Lease,
  type Limiter,
  type LimiterJob,
  type LimiterOptions,
  type LimiterSnapshot,
  type ObserveOptions,
  type LoadOptions,
  type MergeLane,
  type MergeLanesOptions,
  mergeLanes,
  type Overflow,
  OverflowError,
  orderPerKey,
  policy,
  type PullSource,
  RateLimitError,
  type Rejected,
  type ResponseLike,
  robust,
  type Settled,
  type SettleAllOptions,
  type SpeculateOptions,
  SplitLimitError,
  type StreamLike,
  strictWithFloor,
  type SwitchLatestOptions,
  partitionSettled,
  settleAll,
  speculate,
  switchLatest,
  type UnwrapOptions,
  type Usage,
  unwrap,
  type Verdict,
  type Window,
  type WindowContext,
  weighted,
  type WorkResult,
} from 'sluice/operators';

interface Ticket {
  readonly id: string;
  readonly text: string;
  readonly urgent: boolean;
}

const tickets: Observable<Ticket> = of({ id: '1', text: 'refund', urgent: true }, { id: '2', text: 'hello', urgent: false });
const events: FlowEvent[] = [];
const sink: FlowSink = (event) => events.push(event);
const classes: readonly LaneOptions[] = [{ name: 'urgent', maxWaitMs: 10 }, { name: 'rest' }];
const fairness: Fairness = strictWithFloor(0.1);
const queue = lanes(classes, { by: ({ urgent }: Ticket) => (urgent ? 'urgent' : 'rest'), fairness });
const overflow: Overflow = 'dropLowest';

// batch
const batchOptions: BatchOptions<Ticket> = {
  maxSize: 16,
  weigh: ({ text }) => text.length,
  closeWhen: ({ urgent }, state) => urgent && state.items.length > 1 && 'after',
  flush: new Subject<void>(),
};
same<Observable<Ticket[]>>()(tickets.pipe(batch(batchOptions)));
same<Observable<Ticket[]>>()(tickets.pipe(batch()));
// @ts-expect-error -- a size is a number
batch({ maxSize: '16' });

// batchMap
const lengths: BatchWork<Ticket, number> = (items, context: CallContext) => {
  context.settle({ inputTokens: context.weight } satisfies Usage);
  return Promise.resolve(items.map(({ text }) => text.length));
};
const windowOf: Window = ({ queued, concurrency }: WindowContext) => queued / concurrency;
const batchMapOptions: BatchMapOptions<Ticket, number> = {
  queue,
  window: windowOf,
  repair: robust(),
  overflow,
  onEvent: sink,
};
same<Observable<Settled<Ticket, number>>>()(tickets.pipe(batchMap(lengths, batchMapOptions)));
same<Observable<Settled<Ticket, string>>>()(tickets.pipe(batchMap((items) => of(items.map(({ text }) => text)))));
const gated = { concurrency: of(1, 2), maxQueued: () => 10, overflow: () => overflow };
const measured: OperatorFunction<Ticket, Settled<Ticket, number>> = batchMap(lengths, gated);
same<Observable<Settled<Ticket, number>>>()(tickets.pipe(measured));
const partly = [1, new Error('2')];
const byId = new Map([['1', 6]]);
batchMap((_items: readonly Ticket[]) => of(partly, byId));
// @ts-expect-error -- not a window
batchMap(lengths, { window: 'sometimes' });

// batchMapFrom
const pulled: PullSource<Ticket> = [{ id: '3', text: 'hi', urgent: false }];
const stream = new ReadableStream<Ticket>();
const fromOptions: BatchMapFromOptions<Ticket, number> = { maxQueued: () => 100 };
same<Observable<Settled<Ticket, number>>>()(batchMapFrom(pulled, lengths, fromOptions));
same<Observable<Settled<Ticket, number>>>()(batchMapFrom(stream, lengths));

// bulkheadMap
const ask = ({ text }: Ticket, { signal, key, index }: ItemContext) =>
  Promise.resolve(`${text} ${String(key)} ${index} ${String(signal.aborted)}`);
const byCustomer = { key: ({ id }: Ticket) => id, perKey: 1, stopKey: true, concurrency: 4 } satisfies BulkheadMapOptions<Ticket>;
same<Observable<Settled<Ticket, string>>>()(tickets.pipe(bulkheadMap(ask, byCustomer)));

// createBatcher
const batcherOptions: BatcherOptions<Ticket, number> = { dedupe: ({ id }) => id, queue };
const batcher: Batcher<Ticket, number> = createBatcher(lengths, batcherOptions);
const load: LoadOptions = { lane: 'urgent', deadlineMs: 100, signal: new AbortController().signal };
same<Observable<number>>()(batcher.load({ id: '1', text: 'a', urgent: true }, load));
same<Promise<number>>()(batcher.loadAsync({ id: '1', text: 'a', urgent: true }));
same<BatcherSnapshot>()(batcher.snapshot());

// createLimiter
const limits = { rates: [perMinute('requests', 500), perMinute('tokens', 100_000, { burst: 4000 })] };
const limiterOptions: LimiterOptions = { ...limits, concurrency: 4, learn: fromHeaders() };
const limiter: Limiter = createLimiter(limiterOptions);
const cost: Cost = { requests: 1, tokens: 200 };
const job: LimiterJob = { lane: 'urgent', cost, deadlineMs: 1000 };
same<Observable<Lease>>()(limiter.acquire(job));
same<Lease | undefined>()(limiter.tryAcquire());
same<Observable<number>>()(limiter.run(({ lease, signal }) => {
  lease.settle({ outputTokens: signal.aborted ? 0 : 5 });
  return of(1);
}));
same<LimiterSnapshot>()(limiter.snapshot());
const headers = { 'retry-after': '1' };
const response: ResponseLike = { status: 429, headers };
limiter.observe(response);
limiter.observe(new Response());
const observed: ObserveOptions = { sentAt: 5 };
limiter.observe(response, observed);
limiter.tryAcquire()?.observe(response);
async function disposed(): Promise<void> {
  await limiter[Symbol.asyncDispose]();
  await batcher[Symbol.asyncDispose]();
}

// classifyError and a list that is repaired
const classify: Classify = (error: unknown, context: ClassifyContext): Verdict => ({ ...classifyError(error, context), class: 'transient' });
const dividing: BatchMapFromOptions<Ticket, number> = { repair: divideAndConquer(), classify, limiter };
same<Observable<Settled<Ticket, number>>>()(batchMapFrom([] as readonly Ticket[], lengths, dividing));

// fromStream
same<Observable<string>>()(fromStream((_signal: AbortSignal): AsyncIterable<string> => words()));
const readable = { getReader: () => new ReadableStream<number>().getReader() };
const streamLike: StreamLike<number> = readable;
same<Observable<number>>()(fromStream(() => streamLike));
same<Observable<string>>()(fromStream((): ReadableStream<string> => new ReadableStream()));
same<Observable<Ticket>>()(fromStream((): Promise<ReadableStream<Ticket>> => Promise.resolve(new ReadableStream())));
async function* words(): AsyncGenerator<string> {
  yield await Promise.resolve('word');
}
const hedging: HedgeOptions = { delayMs: () => 50, limiter, job };

// mergeLanes
const chat: MergeLane<string, 'chat'> = { name: 'chat', source: ['hello'], maxWaitMs: 5 };
const laneOverflow = 'dropOldest';
const merging: MergeLanesOptions<string | number> = { maxSize: 16, overflow: laneOverflow, fairness: weighted() };
const merged = mergeLanes([chat, { name: 'jobs', source: of(1, 2) }], merging);
same<Observable<LaneBatch<string | number, 'chat' | 'jobs'>>>()(merged);

// settleAll
const waiting: readonly Ticket[] = [{ id: '1', text: 'a', urgent: true }];
const guard: Guard<Ticket> = ({ urgent }) => urgent || 'only urgent ones';
const settling: SettleAllOptions<Ticket> = { guard, errors: 'propagate', concurrency: 4 };
same<Observable<Settled<Ticket, string>[]>>()(settleAll(waiting, ask, settling));
settleAll([({ signal }: ItemContext) => of(signal.aborted)]);
const parted = partitionSettled([] as Settled<Ticket, string>[]);
same<Fulfilled<Ticket, string>[]>()(parted.fulfilled);
same<Rejected<Ticket>[]>()(parted.rejected);
same<PromiseFulfilledResult<number>[]>()(partitionSettled([] as PromiseSettledResult<number>[]).fulfilled);

// speculate
const speculating: SpeculateOptions<string, Ticket> = {
  predict: from(['refund']),
  confirm: tickets,
  match: (predicted, { text }) => predicted === text,
  ttlMs: 1000,
};
same<Observable<number>>()(
  speculate((call: string | Ticket, { isSpeculative }) => of(isSpeculative && typeof call === 'string' ? 1 : 0), speculating),
);

// switchLatest
const switching = { key: ({ id }: Ticket) => id } satisfies SwitchLatestOptions<Ticket>;
same<Observable<string>>()(tickets.pipe(switchLatest(ask, switching)));

// unwrap
const unwrapping: UnwrapOptions = { onEvent: sink };
same<Observable<number>>()(tickets.pipe(batchMap(lengths), unwrap('values', unwrapping)));
same<Observable<number[]>>()(tickets.pipe(batchMap(lengths), unwrap('all')));

// Settled, errors and events
export function outcome(settled: Settled<Ticket, number>): string {
  if (settled.status === 'fulfilled') {
    same<Fulfilled<Ticket, number>>()(settled);
    return settled.value.toFixed();
  }
  same<Rejected<Ticket>>()(settled);
  return String(settled.reason);
}

export function explain(error: unknown): string {
  if (!isFlowError(error)) return 'not ours';
  same<FlowErrorCode>()(error.code);
  const code: ErrorClass = classifyError(error, { aborted: false, attempt: 1, size: 1 }).class;
  if (error instanceof FlowConfigError) return `${error.option}: ${error.expected}`;
  if (error instanceof LaneUnknownError) return error.known.join();
  if (error instanceof ItemTooHeavyError) return `${error.weight} > ${error.maxWeight}`;
  if (error instanceof BatchShapeError) return `${error.expected} != ${error.received}`;
  if (error instanceof RateLimitError) return `${error.limit} ${error.retryAfterMs}`;
  if (error instanceof DeadlineError) return `${error.deadlineMs} ${error.elapsedMs}`;
  if (error instanceof AttemptTimeoutError) return String(error.timeoutMs);
  if (error instanceof OverflowError) return `${error.bound} ${error.limit} ${error.policy}`;
  if (error instanceof SplitLimitError) return `${error.calls} of ${error.maxCalls}`;
  if (error instanceof GuardRefusedError) return `${error.index} ${String(error.reason)}`;
  if (error instanceof CallbackError) return error.callback;
  if (error instanceof ClosedError) return error.name;
  same<FlowError>()(error);
  return `${code} ${new FlowError('FLOW_CLOSED', 'mine', 'closed').message}`;
}

export function describe(event: FlowEvent): string {
  return event.type === 'batchFormed' ? `${event.reason} ${event.size}` : event.operator;
}

export { disposed };

// What work returns, and what it is worth
const texts: WorkResult<string> = Promise.resolve('text');

// Branches with different results: each compiler finds the union by itself.
const answered = (n: number): Promise<string> | Observable<number> => (n > 1 ? Promise.resolve('a') : of(n));
same<Observable<Settled<number, string | number>>>()(of(1).pipe(bulkheadMap(answered)));
same<Observable<string | number>>()(of(1).pipe(bulkheadMap((n) => (n > 1 ? of('a') : [n]), { errors: 'propagate' })));
same<Observable<string | number>>()(of(1).pipe(bulkheadMap(answered, { key: String, perKey: 1, errors: 'propagate' })));
same<Observable<string | number>>()(of(1).pipe(switchLatest(answered)));
same<Observable<Settled<number, string | number>[]>>()(settleAll([1], answered));
same<Promise<string | number>>()(createLimiter().runAsync(() => answered(1)));
same<Observable<string | number>>()(policy()(() => answered(1)));
same<Promise<string | number>>()(
  createBatcher((ids: readonly number[]) => (ids.length > 1 ? of(ids.map(String)) : Promise.resolve([...ids]))).loadAsync(1),
);
same<ClosedError>()(new ClosedError('createLimiter'));

export const partial: BatchResult<number> = [1, new Error('refused')];
