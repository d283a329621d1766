import type { FlowEvent } from '../../operators/types.js';

type Type = FlowEvent['type'];
type EventOf<T extends Type> = Extract<FlowEvent, { readonly type: T }>;
type Kind<V> = V extends string ? 'text' : V extends number ? 'number' : 'truth';
type Kinds<E, Without extends PropertyKey> = { readonly [F in Exclude<keyof E, Without>]: Kind<E[F]> };

/** What every event may carry, beside `type` and `operator`, which it must. */
const STAMP = {
  at: 'number',
  instance: 'text',
  batchId: 'text',
  parentBatchId: 'text',
  seq: 'number',
  traceId: 'text',
  spanId: 'text',
} as const;
type Common = 'type' | 'operator' | 'instance' | 'at' | 'parentBatchId' | 'seq' | 'seqs' | 'traceId' | 'spanId';

const lane = { lane: 'text' } as const;
const queued = { ...lane, queued: 'number' } as const;
const call = { ...lane, batchId: 'text', size: 'number', attempt: 'number' } as const;

/** What an event of each type has to carry. */
const FIELDS: { readonly [T in Type]: Kinds<EventOf<T>, Common | (T extends `attempt${string}` ? never : 'batchId')> } = {
  accepted: queued,
  dropped: { ...lane, policy: 'text' },
  pressure: { ...queued, high: 'truth' },
  queueLong: queued,
  expired: { ...lane, deadlineMs: 'number' },
  batchFormed: { ...lane, reason: 'text', size: 'number', weight: 'number', waitMs: 'number' },
  attemptStarted: { ...call, weight: 'number', splitDepth: 'number', executing: 'number' },
  attemptEnded: { ...call, outcome: 'text', latencyMs: 'number' },
  retryScheduled: { ...lane, class: 'text', size: 'number', attempt: 'number', delayMs: 'number' },
  split: { ...lane, size: 'number', parts: 'number', depth: 'number' },
  blamed: { ...lane, size: 'number', blamed: 'number', round: 'number' },
  settled: { ...lane, outcome: 'text', attempts: 'number', totalMs: 'number' },
  cancelled: { ...lane, count: 'number' },
  abandoned: lane,
  gapSkipped: { ...lane, missing: 'number', held: 'number' },
  swallowed: lane,
  hedged: { ...lane, attempt: 'number', afterMs: 'number' },
  cached: { ...lane, outcome: 'text' },
  storeFailed: { action: 'text' },
  throttled: { pauseMs: 'number' },
  usageClamped: { reported: 'number', charged: 'number' },
  limitChanged: { concurrency: 'number' },
  budgetLow: { position: 'number', unit: 'text', spent: 'number', limit: 'number' },
  budgetOverrun: { position: 'number', unit: 'text', limit: 'number', over: 'number' },
  breakerChanged: { state: 'text', openMs: 'number' },
  drained: {},
};

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
  const { type, operator, seqs } = told;
  if (typeof type !== 'string') return { fault: 'it has no `type`' };
  if (!Object.hasOwn(FIELDS, type)) return { fault: 'no event has its `type`' };
  const name = readField(operator, 'text');
  if (name === undefined) return { fault: 'its `operator` is no text' };
  const event: Record<string, unknown> = { type, operator: name };
  const fields: Readonly<Record<string, string>> = FIELDS[type as Type];
  for (const [field, kind] of Object.entries(fields)) {
    const read = readField(told[field], kind);
    if (read === undefined) return { fault: `its \`${field}\` is ${SAID[kind] ?? ''}` };
    event[field] = read;
  }
  for (const [field, kind] of Object.entries(STAMP)) {
    const read = readField(told[field], kind);
    if (read !== undefined && (kind === 'text' || Number.isFinite(read))) event[field] = read;
  }
  if (Array.isArray(seqs)) event['seqs'] = seqs.filter((seq) => Number.isFinite(seq));
  return event as unknown as FlowEvent;
}

const SAID: Readonly<Record<string, string>> = { text: 'no text', number: 'no number', truth: 'neither true nor false' };

function readField(value: unknown, kind: string): string | number | boolean | undefined {
  if (kind === 'number') return value === null ? Infinity : typeof value === 'number' ? value : undefined;
  if (kind === 'text') return typeof value !== 'string' ? undefined : value.length <= LONGEST ? value : `${value.slice(0, LONGEST - 1)}…`;
  return typeof value === 'boolean' ? value : undefined;
}

export function isFault(read: FlowEvent | EventFault): read is EventFault {
  return 'fault' in read;
}
