import { type Observable, type OperatorFunction, of } from 'rxjs';
import {
  type BackoffOptions,
  type BatchStreamOptions,
  batch,
  batchMap,
  bulkheadMap,
  type CloseWhen,
  type DivideOptions,
  type DivideStrategy,
  divideAndConquer,
  type FailedJob,
  type Failure,
  type FlowEvent,
  fixed,
  graded,
  type FlowEventBody,
  type ItemNote,
  type ItemContext,
  inputOrder,
  type LaneRule,
  type LanesOptions,
  lanes,
  natural,
  type Order,
  type Origin,
  orderPerKey,
  type PartRules,
  type Bidder,
  type Permit,
  type Permits,
  type Place,
  type KeyTurn,
  type Queue,
  type QueueRule,
  type Repair,
  type RepairNote,
  type RepairRule,
  type Repairs,
  type RetryOptions,
  type RobustOptions,
  retryFailed,
  robust,
  roundRobin,
  type Search,
  type SequentialSearchOptions,
  type Settled,
  type SplitItem,
  type SplitItemOptions,
  type FlowEventHeader,
  sequentialSearch,
  splitItem,
  type GrantQueue,
  type Waiter,
} from 'sluice/operators';

interface Ticket {
  readonly id: string;
  readonly text: string;
  readonly customer: string;
}

const tickets: Observable<Ticket> = of({ id: '1', text: 'refund', customer: 'a' });
const lengths = (items: readonly Ticket[]): Promise<number[]> => Promise.resolve(items.map(({ text }) => text.length));
const ask = ({ text }: Ticket, { index }: ItemContext): Promise<string> => Promise.resolve(`${text} ${index}`);

// Queues
const sharing: LanesOptions<Ticket> = { by: ({ customer }) => customer, key: ({ id }) => id, fairness: roundRobin() };
const queue: QueueRule<Ticket> = lanes([{ name: 'a' }, { name: 'b' }], sharing);
same<readonly LaneRule[]>()(queue.lanes);
interface Entry extends Waiter<Entry> {
  readonly text: string;
}
export const waiting = (made: Queue<Entry>): Entry[] => made.plan(0, 8, Infinity);
export const inTurn = (made: Queue<Entry>): GrantQueue<Entry> => made;

// Repairs
const backoff: BackoffOptions = { initialMs: 100, factor: 2, maxMs: 1000, jitter: 'full' };
const retry: RetryOptions = { maxAttempts: 3, ...backoff };
const searching: SequentialSearchOptions = { confirm: false };
const strategy: DivideStrategy = sequentialSearch(searching);
const divide: DivideOptions = { strategy, maxCalls: 100 };
const sturdy: RobustOptions = { retry, divide };
const given = retryFailed(retry);
const onlyOnce: RepairRule = {
  ...given,
  failed: <J extends FailedJob>(failure: Failure<J>): Repair<J> | undefined => (failure.attempt > 1 ? undefined : given.failed(failure)),
};
const repair: Repairs = [onlyOnce, divideAndConquer(divide), robust(sturdy)];
export const noted = (made: Repair<FailedJob>): RepairNote | undefined => made.note;
export const spent = (search: Search<FailedJob>, origin: Origin<FailedJob>): Repair<FailedJob> => search.next(undefined, origin);

// Orders, windows, boundaries and items that are too heavy
const order: Order<Ticket> = orderPerKey(({ customer }) => customer);
const closeWhen: CloseWhen<Ticket> = ({ text }, { items }) => text === '' && items.length > 1 && 'before';
same<OperatorFunction<Ticket, Ticket[]>>()(batch<Ticket>({ closeWhen }));
const halving: Required<SplitItemOptions<Ticket, number>> = {
  into: (ticket) => [ticket, ticket],
  join: (results) => results.reduce((sum, value) => sum + value, 0),
};
const oversize: SplitItem<Ticket, number> = splitItem(halving);
export const weighing: PartRules<Ticket> = { weigh: ({ text }) => text.length };
const options: BatchStreamOptions<Ticket, number> = { queue, repair, order, oversize, window: graded(50), onSourceError: 'drain' };
same<Observable<Settled<Ticket, number>>>()(tickets.pipe(batchMap(lengths, options)));
batchMap(lengths, { window: fixed(5), order: inputOrder() });
batchMap(lengths, { window: natural() });
// @ts-expect-error -- an order is a value, not a word
batchMap(lengths, { order: 'input' });

// One piece of work per item
same<Observable<Settled<Ticket, string>>>()(tickets.pipe(bulkheadMap(ask, { key: ({ id }) => id, perKey: 2, overflow: 'dropOldest' })));
tickets.pipe(bulkheadMap(ask, { key: ({ id }) => id, perKey: 1, stopKey: true }));

// Events
export const itemNote = (note: ItemNote): FlowEventBody => note;
export const stamp = (event: FlowEvent): FlowEventHeader & FlowEventBody => event;

// Where calls get their permits
export const enlisted = (permits: Permits, bidder: Bidder): Place => permits.enlist(bidder);
export const taken = (permits: Permits): Permit | undefined => permits.take?.();
