import type { Item, OperatorPlan } from './plan.js';
import { partsOf, wholeOf } from './plan.js';
import type { CallRecord } from './worker.js';
import { idOf, valueOf, WorkerError } from './worker.js';
import type { Life, Moment, Offer, Settlement, Trace } from './world.js';

/** Checks a finished schedule; answers what is wrong with it, nothing when all is well. */
export function check(trace: Trace): string[] {
  const book = new Book(trace);
  return [
    ...trace.problems,
    ...everyItemSettlesOnce(book),
    ...everyResultIsItsOwn(book),
    ...streamsEndInOrder(book),
    ...callsKeepTheLimits(book),
    ...callsFollowEachOther(book),
    ...abortsAreRight(book),
    ...pausesAreKept(book),
    ...laneOrderIsKept(book),
    ...boundariesAreKept(book),
    ...resultsKeepTheirOrder(book),
    ...nothingIsLeft(trace),
  ];
}

/** The trace, looked up by item and by call. */
class Book {
  /** Calls by the item they had; a load that shares another's item is in none. */
  readonly callsOf = new Map<number, CallRecord[]>();
  readonly settlementOf = new Map<number, Settlement>();

  /** The loads of one item, by the one it came with. */
  readonly #loadsOf = new Map<number, number[]>();

  constructor(readonly trace: Trace) {
    for (const {
      item: { n },
      lead,
    } of trace.offers.values()) {
      const loads = this.#loadsOf.get(lead);
      if (loads) loads.push(n);
      else this.#loadsOf.set(lead, [n]);
    }
    for (const call of trace.calls) {
      for (const { n } of call.items) {
        const calls = this.callsOf.get(n);
        if (calls) calls.push(call);
        else this.callsOf.set(n, [call]);
      }
    }
    for (const settlement of trace.settlements) if (!this.settlementOf.has(settlement.n)) this.settlementOf.set(settlement.n, settlement);
  }

  plan(op: number): OperatorPlan {
    return this.trace.plan.operators[op] as OperatorPlan;
  }

  life(op: number): Life {
    return this.trace.lives[op] as Life;
  }

  /** When the item stopped to be waited for: settled, left by all its callers, or its operator over. */
  gone(item: Item, op: number): Moment | undefined {
    const loads = this.#loadsOf.get(wholeOf(item)) ?? [wholeOf(item)];
    const left = loads.map((n) => this.trace.left.get(n));
    const settled = loads.map((n, i) => (left[i] ? undefined : this.settlementOf.get(n)));
    const moments = [...settled, left.includes(undefined) ? undefined : last(left), this.life(op).end].filter(
      (moment) => moment !== undefined,
    );
    return moments.sort((a, b) => a.seq - b.seq)[0];
  }
}

function* everyItemSettlesOnce({ trace, settlementOf }: Book): Generator<string> {
  const seen = new Set<number>();
  for (const { n, at } of trace.settlements) {
    if (seen.has(n)) yield `item ${n} settled again at ${at} ms`;
    seen.add(n);
    if (!trace.offers.has(n)) yield `item ${n} settled, but was never offered`;
  }
  for (const {
    item: { n },
    op,
    at,
    seq,
  } of trace.offers.values()) {
    const settled = settlementOf.get(n);
    const left = trace.left.get(n);
    if (settled && left && settled.seq > left.seq && (settled.result.ok || !isAbort(settled.result.reason)))
      yield `item ${n} settled after its caller had left`;
    if (settled || left) continue;
    const life = trace.lives[op] as Life;
    if (life.end === undefined) yield `item ${n} was never settled`;
    else if (life.end.how === 'completed') yield `item ${n} was lost: operator ${op} completed without it`;
    else if (
      life.end.how === 'errored' &&
      life.plan.form !== 'createBatcher' &&
      life.plan.onSourceError === 'drain' &&
      life.end.error === life.sourceError?.error &&
      seq < life.end.seq
    ) {
      yield `item ${n}, offered at ${at} ms, was lost: operator ${op} did not drain`;
    }
  }
}

function* everyResultIsItsOwn(book: Book): Generator<string> {
  for (const settlement of book.settlementOf.values()) {
    const { n, op, result, settled } = settlement;
    const own = book.trace.offers.get(n);
    if (own === undefined) continue;
    const offer = book.trace.offers.get(own.lead) as Offer;
    const plan = book.plan(op);
    const isOrdered = plan.order !== 'completion';
    const travellers = isCut(offer.item, plan) ? partsOf(offer.item) : [offer.item];
    const calls = [...new Set(travellers.flatMap((item) => book.callsOf.get(item.n) ?? []))];
    if (!result.ok && plan.failFast) yield `item ${n} was rejected, though the first failure ends the stream`;
    if (settled) {
      if (settled.input !== own.item) yield `item ${n} got the settlement of another item`;
      if (settled.index !== -1 && settled.attempts !== calls.length)
        yield `item ${n} was in ${calls.length} calls, its settlement says ${settled.attempts}`;
      if (settled.index !== -1 && plan.named && offer.item.flaw !== 'id' && settled.id !== idOf(offer.item))
        yield `item ${n} has the id ${settled.id}`;
    }
    const lateMs = settlement.at - offer.at - offer.deadlineMs;
    if (lateMs > 0 && !isOrdered) yield `item ${n} settled ${lateMs} ms after its deadline`;
    if (result.ok) {
      if (result.value !== travellers.map(valueOf).join('+')) yield `item ${n} got ${result.value}`;
      const lasts = travellers.map((item) => book.callsOf.get(item.n)?.at(-1));
      const endedAt = Math.max(...lasts.map((call) => call?.endedAt ?? Infinity));
      if (lasts.some((call, i) => call?.outcome !== 'answered' || call.rejected.has((travellers[i] as Item).n)))
        yield `item ${n} got a value from a call that did not give one`;
      else if (settlement.at < endedAt || (settlement.at > endedAt && !isOrdered))
        yield `item ${n} got its value ${settlement.at - endedAt} ms late`;
    } else {
      const wrongs = travellers.map((item) => {
        const last = book.callsOf.get(item.n)?.at(-1);
        // Rejections are held back as well.
        const at = isOrdered && last ? Math.min(settlement.at, last.endedAt) : settlement.at;
        return wronglyRejected(book, { ...offer, item }, settlement, result.reason, last, at);
      });
      const wrong = isAbort(result.reason)
        ? !book.trace.left.has(n) && 'its caller did not leave'
        : !wrongs.includes(undefined) && wrongs.join(', ');
      if (wrong)
        yield `item ${n} (${offer.item.poison ? 'poisoned' : 'good'}) rejected at ${settlement.at} ms with ${String(result.reason)}: ${wrong}`;
    }
  }
}

function isCut(item: Item, { oversize, maxWeight, itemDeadlineMs }: OperatorPlan): boolean {
  // The rule for deadlines is a function, and its flaws strike, only where it is not one number for all.
  const sound = item.flaw === undefined || (itemDeadlineMs !== Infinity && (item.flaw === 'deadline' || item.flaw === 'badDeadline'));
  return oversize === 'split' && item.weight > maxWeight && sound;
}

/** Why this item should not have got this error; undefined when it should. */
function wronglyRejected(
  book: Book,
  { item, op, at, deadlineMs, tokenCapacity }: Offer,
  settlement: Settlement,
  reason: unknown,
  last: CallRecord | undefined,
  /** When it was rejected; what is held back is told later. */
  rejectedAt: number,
): string | undefined {
  const plan = book.plan(op);
  const life = book.life(op);
  const failedNow = last !== undefined && last.outcome === 'failed' && last.endedAt === rejectedAt;
  if (reason instanceof WorkerError) {
    // Found out when all the others of its call had succeeded.
    if (isInferring(plan) && reason.kind === 'poison' && item.poison && last?.outcome === 'failed') return undefined;
    if (last === undefined || last.endedAt !== rejectedAt) return 'it was in no call that ended then';
    if (last.rejected.get(item.n) !== reason && last.error !== reason) return 'the error belongs to another call';
    return wrongVerdict(book, item, last, reason, plan);
  }
  switch ((reason as { code?: string } | undefined)?.code) {
    case 'FLOW_DEADLINE': {
      const early = settlement.at < at + deadlineMs;
      if (early && (reason as Error).cause === undefined) return 'its deadline had not passed';
      // Given up early only when the next attempt would have come too late.
      return early && !(last && last.outcome !== 'answered' && last.endedAt === rejectedAt) && !last?.rejected.get(item.n)
        ? 'nothing had just failed'
        : undefined;
    }
    case 'FLOW_OVERFLOW': {
      if (plan.form === 'batchMapFrom') return 'nothing is pulled that there is no room for';
      const { limit } = reason as { limit?: number };
      return limit === undefined || limit > plan.maxQueued ? 'the bound is not that' : undefined;
    }
    case 'FLOW_CLOSED': {
      const closed = [life.closed, life.drained].filter((moment) => moment !== undefined);
      return closed.some((moment) => moment.seq < settlement.seq) ? undefined : 'nobody closed it';
    }
    case 'FLOW_ATTEMPT_TIMEOUT': {
      if (last?.outcome !== 'cancelled') return 'its last call was not aborted';
      if (last.endedAt !== last.startedAt + plan.attemptTimeoutMs) return 'its last call did not take that long';
      return wrongExhaustion(plan, last);
    }
    case 'FLOW_BATCH_SHAPE':
      if (last && last.outcome === 'answered' && last.rejected.has(item.n) && plan.contract === 'map') return undefined;
      return failedNow && (last.behaviour === 'wrongShape' || last.behaviour === 'empty') ? undefined : 'its answer had the right shape';
    case 'FLOW_PARTIAL_FAILURE':
      return last?.outcome === 'answered' && last.rejected.has(item.n) && plan.contract === 'partial'
        ? undefined
        : 'the worker did not report it';
    case 'FLOW_SPLIT_BUDGET': {
      if (!plan.split || (plan.split.maxCalls === undefined && plan.split.maxDepth === undefined))
        return 'the default budget never costs an item';
      // What a search has put aside is given up when the search ends.
      return failedNow || isSequential(plan) ? undefined : 'its call had not just failed';
    }
    case 'FLOW_CALLBACK':
      if ((reason as { callback?: string }).callback === 'window')
        return life.windowFailed?.at === settlement.at ? undefined : 'the window did not fail then';
      if ((reason as { callback?: string }).callback === 'classify')
        return failedNow && last.behaviour === 'classifyThrow' ? undefined : 'no classifier failed for it';
      return item.flaw !== undefined && item.flaw !== 'unknownLane' ? undefined : 'no callback failed for it';
    case 'FLOW_LANE_UNKNOWN':
      return item.flaw === 'unknownLane' ? undefined : 'its lane is known';
    case 'FLOW_ITEM_TOO_HEAVY': {
      const capacity = book.trace.plan.limiter?.costAboveCapacity === 'reject' ? tokenCapacity : Infinity;
      const heaviest = Math.min(
        plan.hardMaxWeight,
        plan.oversize === 'alone' || plan.oversize === 'split' ? Infinity : plan.maxWeight,
        plan.weighs ? capacity : Infinity,
      );
      return item.weight > heaviest ? undefined : 'it is not';
    }
    default:
      return 'this error has no business here';
  }
}

function wrongVerdict(book: Book, item: Item, call: CallRecord, error: WorkerError, plan: OperatorPlan): string | undefined {
  const alone = call.items.length === 1;
  switch (error.kind) {
    case 'poison':
      if (item.poison && alone) return undefined;
      if (error.blamed.some(({ n }) => n === item.n) || plan.split === false) return undefined;
      return `it stood in a call of ${call.items.length} and was not blamed`;
    case 'tooLarge':
      return alone || plan.split === false ? undefined : 'it did not stand alone';
    case 'itemPoison':
      return item.poison ? undefined : 'it is good';
    case 'transient':
    case 'throttled':
    case 'itemRetry':
      return wrongExhaustion(plan, call);
    case 'fatal':
    case 'classifyThrow':
      return undefined;
    case 'aborted':
      return 'the call was aborted by us';
  }
}

/** Why the call's items should have got another attempt. */
function wrongExhaustion({ retry }: OperatorPlan, call: CallRecord): string | undefined {
  if (retry === false || call.attempt >= retry.maxAttempts || retry.budget !== Infinity) return undefined;
  return `attempt ${call.attempt} of ${retry.maxAttempts} was not the last`;
}

function* streamsEndInOrder(book: Book): Generator<string> {
  for (const [op, life] of book.trace.lives.entries()) {
    const { end, plan, sourceDone, sourceError } = life;
    if (plan.form === 'createBatcher') continue;
    if (end === undefined) {
      yield `operator ${op} never ended`;
      continue;
    }
    if (end.how === 'unsubscribed') continue;
    if (life.windowFailed) {
      if (end.at !== life.windowFailed.at || (end.error as { callback?: string } | undefined)?.callback !== 'window')
        yield `operator ${op} went on without its window`;
      continue;
    }
    const own = book.trace.settlements.filter((settlement) => settlement.op === op);
    const lastAt = Math.max(0, ...own.map((settlement) => settlement.at));
    if (end.how === 'completed') {
      if (sourceDone === undefined) yield `operator ${op} completed before its source`;
      if (sourceError) yield `operator ${op} completed although its source failed`;
      const dueAt = Math.max(lastAt, sourceDone?.at ?? 0);
      // A slow supply says that it is over a millisecond late.
      if (end.at > dueAt + 1) yield `operator ${op} completed ${end.at - dueAt} ms late`;
    } else if (end.error === sourceError?.error) {
      if (plan.onSourceError === 'abort' && plan.form === 'batchMap' && end.at !== sourceError?.at)
        yield `operator ${op} did not abort at once`;
    } else if (plan.failFast) {
      if (!isReason(book, op, end.error)) yield `operator ${op} failed with ${String(end.error)}`;
    } else if ((end.error as { code?: string } | undefined)?.code === 'FLOW_ITEM_TOO_HEAVY') {
      if (plan.oversize !== 'error') yield `operator ${op} failed from an oversize item, its policy is ${plan.oversize}`;
    } else if ((end.error as { code?: string } | undefined)?.code === 'FLOW_OVERFLOW') {
      if (plan.overflow !== 'error') yield `operator ${op} failed from overflow, its policy is ${plan.overflow}`;
    } else {
      yield `operator ${op} failed with ${String(end.error)}`;
    }
  }
}

function* callsKeepTheLimits(book: Book): Generator<string> {
  const callsOfBatch = new Map<string, CallRecord[]>();
  for (const call of book.trace.calls) {
    const { no, op, items, running, limit, weight, depth, attempt } = call;
    const plan = book.plan(op);
    if (running > limit) yield `call ${no} ran as number ${running} under a limit of ${limit}`;
    if (items.length === 0) yield `call ${no} is empty`;
    if (items.length > plan.maxSize) yield `call ${no} has ${items.length} items, more than ${plan.maxSize}`;
    const sum = items.reduce((total, item) => total + item.weight, 0);
    if (sum !== weight) yield `call ${no} weighs ${sum}, its context says ${weight}`;
    if (items.length > 1 && sum > plan.maxWeight) yield `call ${no} weighs ${sum}, more than ${plan.maxWeight}`;
    if (new Set(items).size !== items.length) yield `call ${no} has an item twice`;
    for (const item of items) {
      const gone = book.gone(item, op);
      if (gone && gone.seq < call.seq) yield `call ${no} has item ${item.n}, which was gone by then`;
    }
    if (plan.split && depth > (plan.split.maxDepth ?? 16)) yield `call ${no} is ${depth} splits deep`;
    if (plan.retry === false ? attempt > 1 : attempt > plan.retry.maxAttempts) yield `call ${no} is attempt ${attempt}`;
    const key = `${op} ${call.batchId}`;
    const calls = callsOfBatch.get(key);
    if (calls) calls.push(call);
    else callsOfBatch.set(key, [call]);
  }
  for (const [key, calls] of callsOfBatch) {
    const [first] = calls as [CallRecord, ...CallRecord[]];
    const { split } = book.plan(first.op);
    const firsts = calls.filter((call) => call.attempt === 1).length;
    const budget = split ? (split.maxCalls ?? 2 * first.items.length) : 1;
    if (firsts > budget) yield `batch ${key} took ${firsts} calls, its budget is ${budget}`;
  }
}

/** Whether an item may be called bad without having stood alone. */
function isInferring(plan: OperatorPlan): boolean {
  return isSequential(plan) && plan.split !== false && plan.split.confirm === false;
}

function isSequential({ split }: OperatorPlan): boolean {
  return split !== false && split.strategy === 'sequential';
}

/** What may come after a call for its items: retries whole, splits deeper, or nothing. */
function* callsFollowEachOther(book: Book): Generator<string> {
  const { callsOf } = book;
  const nextsOf = new Map<CallRecord, Set<CallRecord>>();
  for (const [n, calls] of callsOf) {
    const first = calls[0] as CallRecord;
    if (first.attempt !== 1 || first.depth !== 0) yield `item ${n} started with attempt ${first.attempt}, depth ${first.depth}`;
    for (let i = 1; i < calls.length; i++) {
      const before = calls[i - 1] as CallRecord;
      const after = calls[i] as CallRecord;
      const nexts = nextsOf.get(before) ?? new Set();
      nextsOf.set(before, nexts.add(after));
      const step = `item ${n} went from call ${before.no} (${before.error?.kind ?? before.outcome}) to call ${after.no}`;
      if (after.seq < before.endSeq) yield `${step} before that had ended`;
      if (before.batchId !== after.batchId || before.lane !== after.lane) yield `${step} of another batch or lane`;
      const kind =
        before.outcome === 'answered' ? before.rejected.get(n)?.kind : before.outcome === 'cancelled' ? 'transient' : before.error?.kind;
      const retried = after.attempt === before.attempt + 1 && after.depth === before.depth;
      const isSearch = isSequential(book.plan(before.op));
      // A search comes back up to what it has put aside.
      const divided = after.attempt === 1 && (isSearch ? after.depth > 0 : after.depth === before.depth + 1);
      if (kind === 'transient' || kind === 'throttled' || kind === 'itemRetry') {
        if (!retried) yield `${step}, which is not its retry`;
      } else if (kind === 'poison' || kind === 'tooLarge') {
        if (!divided) yield `${step}, which is not a part of it`;
      } else {
        yield `${step} after something final`;
      }
      const retryAfterMs = before.error?.verdict.retryAfterMs ?? 0;
      if (retried && after.startedAt < before.endedAt + retryAfterMs) yield `${step} sooner than asked`;
    }
  }
  for (const [before, nexts] of nextsOf) {
    const retries = [...nexts].filter((call) => call.attempt > 1).length;
    const isSearch = isSequential(book.plan(before.op));
    if (retries > 1) yield `call ${before.no} was retried in ${retries} calls: a failure that is not the items' must not split`;
    for (const after of nexts) {
      const order = after.items.map((item) => before.items.indexOf(item)).filter((at) => at !== -1 || !isSearch);
      if (order.some((at, i) => at === -1 || (i > 0 && at < (order[i - 1] as number))))
        yield `call ${after.no} mixes up the order of call ${before.no}`;
    }
  }
}

function* abortsAreRight(book: Book): Generator<string> {
  for (const call of book.trace.calls) {
    const { no, op, items, outcome, aborts, startedAt, endedAt, endSeq } = call;
    const plan = book.plan(op);
    if (outcome === 'running') yield `call ${no} still runs`;
    const gone = items.map((item) => book.gone(item, op));
    const timedOut = endedAt === startedAt + plan.attemptTimeoutMs;
    if (endedAt > startedAt + plan.attemptTimeoutMs) yield `call ${no} ran ${endedAt - startedAt} ms`;
    // What is held back was rejected earlier than it is told.
    if (
      outcome === 'cancelled' &&
      !timedOut &&
      plan.order === 'completion' &&
      gone.some((moment) => moment === undefined || moment.at > endedAt)
    )
      yield `call ${no} was aborted, though somebody waited for it`;
    const lastGone = Math.max(...gone.map((moment) => moment?.seq ?? Infinity));
    const lastGoneAt = Math.max(...gone.map((moment) => moment?.at ?? Infinity));
    // Work whose members all leave while it starts is aborted before it can answer.
    const givenUp = outcome === 'cancelled' || lastGone < endSeq;
    // Unsubscribing a load inside its own subscribe is only seen when that returns: work that is over by then was not aborted.
    const atOnce = outcome !== 'cancelled' && endedAt === startedAt;
    if (aborts !== undefined && !atOnce && (aborts !== (givenUp ? 1 : 0) || call.isAborted() !== givenUp))
      yield `call ${no} was ${givenUp ? 'given up' : outcome}, its signal fired ${aborts} times`;
    if (lastGone < endSeq && lastGoneAt < endedAt) yield `call ${no} went on for ${endedAt - lastGoneAt} ms after everybody had left`;
  }
}

/** After a 429 that said how long to wait, nothing starts under that limit. */
function* pausesAreKept({ trace }: Book): Generator<string> {
  const shared = trace.plan.limiter !== undefined;
  for (const call of trace.calls) {
    const pauseMs = call.outcome === 'failed' ? call.error?.verdict.retryAfterMs : undefined;
    if (pauseMs === undefined) continue;
    const early = trace.calls.find(
      (other) => (shared || other.op === call.op) && other.seq > call.endSeq && other.startedAt < call.endedAt + pauseMs,
    );
    if (early) yield `call ${early.no} started ${early.startedAt - call.endedAt} ms after call ${call.no} was told to wait ${pauseMs} ms`;
  }
}

/** Fresh items of one lane leave in the order they came. */
function* laneOrderIsKept({ trace }: Book): Generator<string> {
  const newest = new Map<string, number>();
  for (const call of trace.calls) {
    if (call.depth > 0 || call.attempt > 1) continue;
    for (const item of call.items) {
      const n = wholeOf(item);
      const { lane, lead, queuedSeq } = trace.offers.get(n) as Offer;
      const key = `${call.op} ${lane}`;
      if (queuedSeq < (newest.get(key) ?? -1)) yield `call ${call.no} has item ${n}, which others of lane ${lane} have overtaken`;
      if (lead !== n) yield `call ${call.no} has item ${n}, though item ${lead} was under way for it`;
      newest.set(key, queuedSeq);
    }
  }
}

/** No batch has items from both sides of a boundary of their lane. */
function* boundariesAreKept({ trace }: Book): Generator<string> {
  for (const { no, op, items, depth, attempt } of trace.calls) {
    if (depth > 0 || attempt > 1) continue;
    const offers = items.map((item) => trace.offers.get(wholeOf(item)) as Offer);
    for (const lane of new Set(offers.map((offer) => offer.lane))) {
      const seqs = offers.filter((offer) => offer.lane === lane).map((offer) => offer.queuedSeq);
      const [from, to] = [Math.min(...seqs), Math.max(...seqs)];
      if (trace.boundaries.some((boundary) => boundary.op === op && boundary.lane === lane && boundary.at > from && boundary.at < to))
        yield `call ${no} crosses a boundary of lane ${lane}`;
    }
  }
}

/** Results go out in the order asked for, and nothing is held back longer than what it waits for. */
function* resultsKeepTheirOrder(book: Book): Generator<string> {
  const { trace } = book;
  for (const [op, plan] of trace.plan.operators.entries()) {
    if (plan.order === 'completion') continue;
    const lines = new Map<number, Settlement[]>();
    for (const settlement of trace.settlements) {
      const offer = trace.offers.get(settlement.n);
      if (settlement.op !== op || offer === undefined || isOutOfTurn(settlement, offer)) continue;
      const line = plan.order === 'perKey' ? offer.item.key : 0;
      lines.set(line, [...(lines.get(line) ?? []), settlement]);
    }
    for (const [key, line] of lines) {
      const seqs = line.map(({ n }) => (trace.offers.get((trace.offers.get(n) as Offer).lead) as Offer).seq);
      const at = seqs.findIndex((seq, i) => i > 0 && seq < (seqs[i - 1] as number));
      if (at !== -1) yield `item ${(line[at] as Settlement).n} of line ${key} of operator ${op} went out after a later one`;
      yield* heldTooLong(book, op, line, seqs);
    }
  }
}

/** A value that goes out later than its call ended was waited for by, or came with, what was before it. */
function* heldTooLong({ trace, callsOf }: Book, op: number, line: readonly Settlement[], seqs: readonly number[]): Generator<string> {
  for (const [i, { n, at, result }] of line.entries()) {
    const endedAt = callsOf.get((trace.offers.get(n) as Offer).lead)?.at(-1)?.endedAt ?? at;
    if (!result.ok || at <= endedAt) continue;
    const freed = (other: number): boolean => {
      const offer = trace.offers.get(other);
      return offer?.op === op && (trace.offers.get(offer.lead) as Offer).seq < (seqs[i] as number);
    };
    if (trace.settlements.some((other) => other.at === at && freed(other.n))) continue;
    if ([...trace.left].some(([other, moment]) => moment.at === at && freed(other))) continue;
    yield `item ${n} was held back for ${at - endedAt} ms, though nothing before it came free then`;
  }
}

/** Loads that never came to the engine have no place in its order. */
function isOutOfTurn({ result, settled }: Settlement, { item }: Offer): boolean {
  if (settled?.index === -1 || item.flaw === 'dedupe') return true;
  return !result.ok && (isAbort(result.reason) || (result.reason as { code?: string } | undefined)?.code === 'FLOW_CLOSED');
}

/** Whether an item of the operator could have failed with this. */
function isReason({ trace }: Book, op: number, error: unknown): boolean {
  if ((error as { operator?: string } | undefined)?.operator !== undefined) return true;
  return trace.calls.some((call) => call.op === op && (call.error === error || [...call.rejected.values()].includes(error as WorkerError)));
}

function* nothingIsLeft({ limiter }: Trace): Generator<string> {
  if (limiter && limiter.executing !== 0) yield `the limiter still counts ${limiter.executing} leases`;
  if (limiter && limiter.queued !== 0) yield `the limiter still counts ${limiter.queued} waiting`;
}

function last(moments: readonly (Moment | undefined)[]): Moment | undefined {
  return moments.reduce((later, moment) => (later && moment && later.seq > moment.seq ? later : moment), undefined);
}

function isAbort(reason: unknown): boolean {
  return (reason as { name?: string } | undefined)?.name === 'AbortError';
}
