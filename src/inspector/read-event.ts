import type { FlowEvent } from '../../operators/types.js';

type Type = FlowEvent['type'];
/** An event of one type. */
export type EventOf<T extends Type> = Extract<FlowEvent, { readonly type: T }>;
type Common = 'type' | 'operator' | 'instance' | 'at' | 'parentBatchId' | 'seq' | 'seqs' | 'traceId' | 'spanId';
type FieldsOf<T extends Type> = Exclude<keyof EventOf<T>, Common | (T extends `attempt${string}` ? never : 'batchId')>;
type OfKind<V> = { [T in Type]: { [F in FieldsOf<T>]: EventOf<T>[F] extends V ? F : never }[FieldsOf<T>] }[Type];

/** What every event may carry, beside `type` and `operator`, which it must. */
const STAMP = ['at', 'instance', 'batchId', 'parentBatchId', 'seq', 'traceId', 'spanId'] as const;

const lane = { lane: 1 } as const;
const queued = { ...lane, queued: 1 } as const;
const sized = { ...lane, size: 1 } as const;
const call = { ...sized, batchId: 1, attempt: 1 } as const;

/** What an event of each type has to carry. */
const FIELDS: { readonly [T in Type]: Readonly<Record<FieldsOf<T>, 1>> } = {
  accepted: queued,
  dropped: { ...lane, policy: 1 },
  pressure: { ...queued, high: 1 },
  queueLong: queued,
  expired: { ...lane, deadlineMs: 1 },
  batchFormed: { ...sized, reason: 1, weight: 1, waitMs: 1 },
  attemptStarted: { ...call, weight: 1, splitDepth: 1, executing: 1 },
  attemptEnded: { ...call, outcome: 1, latencyMs: 1 },
  retryScheduled: { ...sized, class: 1, attempt: 1, delayMs: 1 },
  split: { ...sized, parts: 1, depth: 1 },
  blamed: { ...sized, blamed: 1, round: 1 },
  settled: { ...lane, outcome: 1, attempts: 1, totalMs: 1 },
  cancelled: { ...lane, count: 1 },
  abandoned: lane,
  gapSkipped: { ...lane, missing: 1, held: 1 },
  swallowed: lane,
  hedged: { ...lane, attempt: 1, afterMs: 1 },
  cached: { ...lane, outcome: 1 },
  storeFailed: { action: 1 },
  throttled: { pauseMs: 1 },
  usageClamped: { reported: 1, charged: 1 },
  limitChanged: { concurrency: 1 },
  budgetLow: { position: 1, unit: 1, spent: 1, limit: 1 },
  budgetOverrun: { position: 1, unit: 1, limit: 1, over: 1 },
  breakerChanged: { state: 1, openMs: 1 },
  drained: {},
};

/** All others are numbers. */
const TEXTS: Readonly<Record<OfKind<string> | 'operator' | 'instance' | 'parentBatchId' | 'traceId' | 'spanId', 1>> = {
  ...{ lane: 1, policy: 1, reason: 1, outcome: 1, class: 1, action: 1, unit: 1, state: 1 },
  ...{ operator: 1, instance: 1, batchId: 1, parentBatchId: 1, traceId: 1, spanId: 1 },
};
const TRUTHS: Readonly<Record<OfKind<boolean>, 1>> = { high: 1 };

type FieldKind = readonly [field: string, kind: keyof typeof SAID];

/** By type: worked out when there is the first event of it. */
const fieldsOf: Record<string, readonly FieldKind[]> = {};
let stamp: readonly FieldKind[] | undefined;

/** In characters: longer names are cut. */
const LONGEST = 200;

/** Why something is no event, in words. */
export interface EventFault {
  readonly fault: string;
}

/**
 * An event made of what was told by JSON: the fields that an event of its type has, and none of the others, so that nothing shows up that somebody put
 * beside them. Names are cut at 200 characters. `null` in place of a number is Infinity, which JSON cannot say.
 */
export function readEvent(value: unknown): FlowEvent | EventFault {
  if (typeof value !== 'object' || value === null) return { fault: 'it is no object' };
  const told = value as Readonly<Record<string, unknown>>;
  const { type, seqs } = told;
  if (typeof type !== 'string') return { fault: 'it has no `type`' };
  if (!Object.hasOwn(FIELDS, type)) return { fault: 'no event has its `type`' };
  const event: Record<string, unknown> = { type };
  for (const [field, kind] of (fieldsOf[type] ??= kindsOf(['operator', ...Object.keys(FIELDS[type as Type])]))) {
    const read = readAs(kind, told[field]);
    if (read === undefined) return { fault: `its \`${field}\` is ${SAID[kind]}` };
    event[field] = read;
  }
  for (const [field, kind] of (stamp ??= kindsOf(STAMP))) {
    const read = readAs(kind, told[field]);
    if (kind === 'string' ? read !== undefined : Number.isFinite(read)) event[field] = read;
  }
  if (Array.isArray(seqs)) event['seqs'] = seqs.filter((seq) => Number.isFinite(seq));
  return event as unknown as FlowEvent;
}

const SAID = { string: 'no text', number: 'no number', boolean: 'neither true nor false' };

function kindsOf(fields: readonly string[]): FieldKind[] {
  return fields.map((field) => [field, field in TEXTS ? 'string' : field in TRUTHS ? 'boolean' : 'number']);
}

function readAs(kind: keyof typeof SAID, value: unknown): unknown {
  if (kind === 'number' && value === null) return Infinity;
  if (typeof value !== kind) return undefined;
  return typeof value === 'string' && value.length > LONGEST ? `${value.slice(0, LONGEST - 1)}…` : value;
}

export function isFault(read: FlowEvent | EventFault): read is EventFault {
  return 'fault' in read;
}
