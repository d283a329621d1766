import type { VirtualTimeScheduler } from 'rxjs';
import { Observable, of } from 'rxjs';
import type { BatchResult, CallContext, Verdict } from '../../operators/support/types.js';
import type { Dice } from './dice.js';
import type { Contract, Fault, Item, Plan } from './plan.js';

/** What a call of the worker comes to. */
type Behaviour =
  | 'answer'
  | 'transient'
  | 'throttled'
  | 'fatal'
  | 'never'
  | 'wrongShape'
  | 'empty'
  | 'syncThrow'
  | 'syncAnswer'
  | 'classifyThrow';

/** What this worker errors with: knows its verdict, its call, and whom it blames. */
export class WorkerError extends Error {
  override readonly name = 'WorkerError';
  constructor(
    readonly kind: 'transient' | 'throttled' | 'fatal' | 'poison' | 'tooLarge' | 'classifyThrow' | 'aborted' | 'itemPoison' | 'itemRetry',
    readonly verdict: Verdict,
    /** Items the error names, when it may be believed. */
    readonly blamed: readonly Item[] = [],
  ) {
    super(kind);
  }
}

/** One call as the worker saw it. Times are virtual ms, `seq` orders what shares a millisecond. */
export interface CallRecord {
  readonly no: number;
  readonly op: number;
  readonly seq: number;
  readonly items: readonly Item[];
  readonly attempt: number;
  readonly depth: number;
  readonly batchId: string;
  readonly lane: string;
  readonly weight: number;
  readonly startedAt: number;
  /** Calls running at the start, this one included, and the limit then. */
  readonly running: number;
  readonly limit: number;
  endedAt: number;
  endSeq: number;
  outcome: 'running' | 'answered' | 'failed' | 'cancelled';
  behaviour: Behaviour;
  error: WorkerError | undefined;
  /** Items the answer rejected alone. */
  readonly rejected: Map<number, WorkerError | undefined>;
  /** Times the signal said abort; undefined when nobody looked at the signal. */
  aborts: number | undefined;
  isAborted: () => boolean;
}

export interface WorkerHost {
  readonly plan: Plan;
  readonly dice: Dice;
  readonly scheduler: VirtualTimeScheduler;
  readonly calls: CallRecord[];
  strike(fault: Fault): void;
  hasStruck(fault: Fault): boolean;
  tick(): number;
  /** The running calls under the same limit, and the limit. */
  gate(op: number): { running: number; readonly limit: number };
  started(call: CallRecord): void;
  reconciled(call: CallRecord, tokens: number): void;
  /** Lets the work function interfere with its own pipeline. */
  meddle(call: CallRecord): void;
}

const BLAMES = ['blameRight', 'blameWrong', 'blameDoubled', 'blameOutOfRange', 'blameNone'] as const satisfies readonly Fault[];

export function valueOf(item: Item): string {
  return `v${String(item.n)}`;
}

export function idOf(item: Item): string {
  return `i${String(item.n)}`;
}

const CALL_FAULTS = [
  'transient',
  'throttled',
  'fatal',
  'never',
  'wrongShape',
  'empty',
  'syncThrow',
  'syncAnswer',
  'classifyThrow',
] as const satisfies readonly Fault[];

/** The work function of operator `op`: an unreliable provider in virtual time. */
export function unreliableWork(
  host: WorkerHost,
  op: number,
): (items: readonly Item[], context: CallContext) => Observable<BatchResult<string>> {
  const { plan, dice, scheduler } = host;
  const { contract, named } = plan.operators[op] as Plan['operators'][number];
  // Each fault of the schedule strikes one early call for certain, in an order of its own, and others now and then.
  const due = CALL_FAULTS.filter((fault) => plan.faults.has(fault)).sort(() => dice.next() - 0.5);

  const behave = (): Behaviour => {
    if (due.length > 0 && dice.chance(0.5)) return due.shift() as Behaviour;
    const fault = dice.pick(CALL_FAULTS);
    return plan.faults.has(fault) && dice.chance(0.25) ? fault : 'answer';
  };

  return (items, context) => {
    const gate = host.gate(op);
    const call: CallRecord = {
      no: host.calls.length,
      op,
      seq: host.tick(),
      items: [...items],
      attempt: context.attempt,
      depth: context.splitDepth,
      batchId: context.batchId,
      lane: context.lane,
      weight: context.weight,
      startedAt: scheduler.now(),
      running: ++gate.running,
      limit: gate.limit,
      endedAt: Infinity,
      endSeq: Infinity,
      outcome: 'running',
      behaviour: behave(),
      error: undefined,
      rejected: new Map(),
      aborts: undefined,
      isAborted: () => false,
    };
    host.calls.push(call);
    host.started(call);
    if (dice.chance(0.8)) {
      const { signal } = context;
      call.aborts = 0;
      call.isAborted = () => signal.aborted;
      signal.addEventListener('abort', () => (call.aborts = (call.aborts ?? 0) + 1));
    }
    const end = (outcome: CallRecord['outcome']): void => {
      if (call.outcome !== 'running') return;
      call.outcome = outcome;
      call.endedAt = scheduler.now();
      call.endSeq = host.tick();
      gate.running--;
    };
    if (plan.faults.has('meddlingWork') && dice.chance(0.15)) host.meddle(call);
    const answer = (): BatchResult<string> | undefined => decide(host, call, contract, named);

    if (call.behaviour === 'syncThrow') {
      host.strike('syncThrow');
      call.error = new WorkerError('transient', { class: 'transient' });
      end('failed');
      throw call.error;
    }
    if (call.behaviour === 'syncAnswer') {
      const value = answer();
      if (value !== undefined) {
        host.strike('syncAnswer');
        end('answered');
        return of(value);
      }
    }
    if (dice.chance(0.2)) {
      const tokens = Math.round(call.weight * (0.5 + dice.next()));
      host.reconciled(call, tokens);
      context.reconcile({ inputTokens: tokens });
    }

    return new Observable((subscriber) => {
      const { fromMs, toMs, stepMs } = plan.latency;
      const latencyMs = stepMs * Math.max(1, Math.round(dice.int(fromMs, toMs) / stepMs));
      if (plan.faults.has('angryAbort') && dice.chance(0.5)) {
        context.signal.addEventListener('abort', () => {
          host.strike('angryAbort');
          subscriber.error(new WorkerError('aborted', { class: 'itemFault' }));
        });
      }
      subscriber.add(() => {
        end('cancelled');
      });
      if (call.behaviour === 'never') {
        host.strike('never');
        return;
      }
      subscriber.add(
        scheduler.schedule(() => {
          const failed = (error: WorkerError): void => {
            call.error ??= error;
            end('failed');
            subscriber.error(call.error);
          };
          switch (call.behaviour) {
            case 'transient':
              host.strike('transient');
              failed(new WorkerError('transient', { class: 'transient' }));
              return;
            case 'throttled':
              host.strike('throttled');
              failed(
                new WorkerError(
                  'throttled',
                  dice.chance(0.5) ? { class: 'throttled', retryAfterMs: dice.pick([10, 300]) } : { class: 'throttled' },
                ),
              );
              return;
            case 'fatal':
              host.strike('fatal');
              failed(new WorkerError('fatal', { class: 'fatal' }));
              return;
            case 'classifyThrow':
              host.strike('classifyThrow');
              failed(new WorkerError('classifyThrow', { class: 'fatal' }));
              return;
            case 'empty':
              host.strike('empty');
              end('failed');
              subscriber.complete();
              return;
            case 'wrongShape':
              host.strike('wrongShape');
              end('failed');
              subscriber.next(wrongAnswer(dice, call, contract));
              subscriber.complete();
              return;
            default: {
              const value = answer();
              if (value === undefined) {
                failed(call.error as WorkerError);
                return;
              }
              end('answered');
              // The last value wins.
              if (dice.chance(0.1)) subscriber.next([]);
              subscriber.next(value);
              subscriber.complete();
            }
          }
        }, latencyMs),
      );
    });
  };
}

/** The answer to a call that gets one; undefined when it fails as a whole, with `call.error` set. */
function decide(host: WorkerHost, call: CallRecord, contract: Contract, named: boolean): BatchResult<string> | undefined {
  const { plan, dice } = host;
  const { items } = call;
  const weight = items.reduce((sum, item) => sum + item.weight, 0);
  if (weight > plan.providerLimit) {
    host.strike('tooLarge');
    call.error = new WorkerError('tooLarge', {
      class: 'tooLarge',
      ...(dice.chance(0.6) && { tooLarge: { actual: weight, limit: plan.providerLimit } }),
    });
    return undefined;
  }
  const poisoned = items.filter((item) => item.poison);
  const partial = plan.faults.has('partial') && dice.chance(host.hasStruck('partial') ? 0.4 : 0.8);
  if (poisoned.length > 0 && !partial) {
    call.error = blame(host, items, poisoned, named);
    return undefined;
  }
  if (poisoned.length > 0) host.strike('partial');
  for (const item of poisoned)
    call.rejected.set(
      item.n,
      contract === 'array' || contract === 'settled' ? new WorkerError('itemPoison', { class: 'itemFault' }) : undefined,
    );
  if (plan.faults.has('itemRetry') && (contract === 'array' || contract === 'settled')) {
    for (const item of items) {
      if (item.poison || !dice.chance(0.1)) continue;
      host.strike('itemRetry');
      call.rejected.set(item.n, new WorkerError('itemRetry', { class: 'transient' }));
    }
  }
  const good = items.filter((item) => !call.rejected.has(item.n));
  switch (contract) {
    case 'array':
      return items.map((item) => call.rejected.get(item.n) ?? valueOf(item));
    case 'settled':
      return items.map((item) =>
        call.rejected.has(item.n)
          ? { status: 'rejected' as const, reason: call.rejected.get(item.n) }
          : { status: 'fulfilled' as const, value: valueOf(item) },
      );
    case 'map':
      // In an order of its own.
      return new Map([...good].reverse().map((item) => [idOf(item), valueOf(item)]));
    case 'partial': {
      const failed = items.flatMap((item, i) => (call.rejected.has(item.n) ? [named ? idOf(item) : i] : []));
      return { failed: failed.reverse(), values: good.map(valueOf) };
    }
  }
}

/** An error for a call with poisoned items in it, which blames in one of the schedule's ways. */
function blame(host: WorkerHost, items: readonly Item[], poisoned: readonly Item[], named: boolean): WorkerError {
  const { plan, dice } = host;
  const name = (item: Item): string | number => (named && dice.chance(0.5) ? idOf(item) : items.indexOf(item));
  const first = poisoned[0] as Item;
  const innocent = items.find((item) => !item.poison);
  const ways = BLAMES.filter((way) => plan.faults.has(way) && (way !== 'blameWrong' || innocent !== undefined));
  const due = ways.filter((way) => !host.hasStruck(way));
  const way = ways.length === 0 ? 'blameNone' : dice.pick(due.length > 0 ? due : ways);
  if (way === 'blameWrong' && innocent) {
    host.strike('blameWrong');
    return new WorkerError('poison', { class: 'itemFault', blame: [name(innocent)] }, [innocent]);
  }
  if (way === 'blameDoubled') {
    host.strike('blameDoubled');
    return new WorkerError('poison', { class: 'itemFault', blame: [items.indexOf(first), items.indexOf(first)] });
  }
  if (way === 'blameOutOfRange') {
    host.strike('blameOutOfRange');
    return new WorkerError('poison', { class: 'itemFault', blame: [items.indexOf(first), dice.pick([items.length, -1, 0.5, 'nobody'])] });
  }
  if (way === 'blameRight') {
    host.strike('blameRight');
    const named = dice.chance(0.5) ? poisoned : [first];
    return new WorkerError('poison', { class: 'itemFault', blame: named.map(name) }, named);
  }
  host.strike('blameNone');
  return new WorkerError('poison', { class: 'itemFault', ...(dice.chance(0.3) && { blame: [] }) });
}

/** An answer that cannot be matched to the items. */
function wrongAnswer(dice: Dice, { items }: CallRecord, contract: Contract): BatchResult<string> {
  const values = items.map(valueOf);
  switch (contract) {
    case 'map':
      return new Map([...items.map((item) => [idOf(item), valueOf(item)] as const), ['nobody', 'x'] as const]);
    case 'partial':
      return dice.pick([
        { failed: [0, 0], values: values.slice(2) },
        { failed: [items.length], values: values.slice(1) },
        { failed: [], values: values.slice(1) },
      ]);
    default:
      return dice.pick([values.slice(1), [...values, 'x'], undefined as unknown as BatchResult<string>]);
  }
}
