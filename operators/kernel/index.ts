/** Unstable: the pure decisions behind the operators, for code that builds operators of its own. */

export { partMs, partsOf } from './credit/credit.js';
export { CreditBook } from './credit/credit-book.js';
export type { LedgerOptions } from './credit/credit-ledger.js';
export { CreditLedger } from './credit/credit-ledger.js';
export type { GateJob, GatePermit, GateRules } from './limiter/gate.js';
export { Gate } from './limiter/gate.js';
export type { Paid, RateSettings } from './limiter/rates.js';
export { Rates } from './limiter/rates.js';
export { clamped, leastOf, leftOf, payable, unitsOf } from './limiter/tree.js';
export type { LimitRange, LimitSample } from './limits/aimd.js';
export { Aimd } from './limits/aimd.js';
export { CalendarWindow } from './limits/calendar-window.js';
export type { BreakerState, CircuitOptions, CircuitState } from './limits/circuit.js';
export { Circuit } from './limits/circuit.js';
export type { HeadersLike } from './limits/headers.js';
export { parseRetryAfterMs } from './limits/headers.js';
export type { Charge } from './limits/limit.js';
export { parseRateReports } from './limits/rate-headers.js';
export type { RateReport, RateUnit } from './limits/rate-lesson.js';
export { mostLeft, RateLesson } from './limits/rate-lesson.js';
export { SlidingWindow } from './limits/sliding-window.js';
export { TokenBucket } from './limits/token-bucket.js';
export { add, enter, roomOf, stamp, takePlace } from './machine/accept.js';
export type { BatchHost, BatchNote, BatchRules, Capacity, Fault, ItemNote } from './machine/batch-host.js';
export { BatchMachine } from './machine/batch-machine.js';
export type { ItemRules } from './machine/item-machine.js';
export { ItemMachine } from './machine/item-machine.js';
export { Batch, ItemFailure, Job } from './machine/job.js';
export { clear, leave, promote, refuseWaiting, rejectAll } from './machine/leave.js';
export { ASK, CLOSED, FINISHING, FRAME, HAND_OUT, NOTHING, OPEN, REST, ROUND, STAY, WITHDRAW } from './machine/step.js';
export { bid, dueAtOf, isBlocked, nextBidAt, oldestMs, readCapacity, reasonOf, shrinkAt } from './machine/turn.js';
export type { Slotted } from './queues/bag.js';
export { Bag } from './queues/bag.js';
export { costLines } from './queues/cost-line.js';
export { DeadlineHeap } from './queues/deadline-heap.js';
export type { Discipline, Fairness, Filler, LaneClaim } from './queues/discipline.js';
export type { LaneItem } from './queues/key-lane.js';
export { KeyLane } from './queues/key-lane.js';
export type { LeaseShare } from './queues/keyed-line.js';
export { LanesQueue } from './queues/lanes-queue.js';
export type { Linked } from './queues/line.js';
export { Backlog, Chain, FIFO, Line, ONE_LINE } from './queues/line.js';
export type { Order } from './queues/order.js';
export type { GrantQueue, GrantQueueRule, LaneRule, Overflow, Queue, QueueRule, Waiter } from './queues/queue.js';
export type { OrderedPlace } from './queues/reorder-buffer.js';
export { ReorderBuffer } from './queues/reorder-buffer.js';
export { sharedRounds } from './queues/rounds.js';
export type { SequenceWait } from './queues/sequence-buffer.js';
export { SequenceBuffer } from './queues/sequence-buffer.js';
export { strictWithFloor } from './queues/strict-with-floor.js';
export type { BackoffOptions } from './repair/backoff.js';
export { backoffDelayMs, isWithinShare, retryDelayMs } from './repair/backoff.js';
export type { SearchLimits, SearchSpent, SearchStep } from './repair/bad-item-search.js';
export { BadItemSearch } from './repair/bad-item-search.js';
export { blamed } from './repair/blame.js';
export { classifyByStatus } from './repair/classify-by-status.js';
export type { DivideInput, DivideLimits, DividePlan } from './repair/divide-plan.js';
export { dividePlan } from './repair/divide-plan.js';
export type { Judgement, RepairCallbacks } from './repair/repairer.js';
export { createRepairer } from './repair/repairer.js';
export type { FailedJob, Failure, Origin, Repair, RepairNote, RepairRule, Search } from './repair/rule.js';
export { SameFault } from './repair/same-fault.js';
export type { Classify, ClassifyContext, ErrorClass, Verdict } from './repair/verdict.js';
export type { Bounds, Refusal } from './waiting/bounds.js';
export {
  boundsOf,
  evictable,
  evictableKey,
  evictions,
  holdsTooMuch,
  isUnbounded,
  mayNotWait,
  overweight,
  pushEvicting,
  refusal,
  room,
  tooManyKeys,
  waitsForRoom,
} from './waiting/bounds.js';
export { Deadlines, isOver, LongMark } from './waiting/deadlines.js';
