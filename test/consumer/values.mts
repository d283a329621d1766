import { type Observable, type OperatorFunction, of } from 'rxjs';
import {
  batch,
  batchMap,
  bulkheadMap,
  type DivideOptions,
  type DivideStrategy,
  divideAndConquer,
  type FlowEvent,
  fixed,
  graded,
  type ItemContext,
  inputOrder,
  type LanesOptions,
  lanes,
  natural,
  type Order,
  orderPerKey,
  type Permits,
  type QueueRule,
  type RepairRule,
  type RetryOptions,
  type RobustOptions,
  retryFailed,
  robust,
  roundRobin,
  type Settled,
  type SplitItem,
  sequentialSearch,
  splitItem,
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

// Repairs
const backoff = { delayMs: 100, maxMs: 1000, jitter: 'full' };
const linear: RetryOptions = { delayMs: (attempt) => attempt * 100, jitter: 'none' };
retryFailed(linear);
const strategy: DivideStrategy = sequentialSearch();
const divide: DivideOptions = { strategy, maxCalls: 100 };

// Orders, windows, boundaries and items that are too heavy
const order: Order<Ticket> = orderPerKey(({ customer }) => customer);
const oversize: SplitItem<Ticket, number> = splitItem(
  (ticket: Ticket) => [ticket, ticket],
  (results: readonly number[]) => results.reduce((sum, value) => sum + value, 0),
);
batchMap(lengths, { window: fixed(5), order: inputOrder() });
batchMap(lengths, { window: natural() });
// @ts-expect-error -- an order is a value, not a word
batchMap(lengths, { order: 'input' });

// One piece of work per item
same<Observable<Settled<Ticket, string>>>()(tickets.pipe(bulkheadMap(ask, { key: ({ id }) => id, perKey: 2, overflow: 'dropOldest' })));
tickets.pipe(bulkheadMap(ask, { key: ({ id }) => id, perKey: 1, stopKey: true }));
