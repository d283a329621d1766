import type { FlowEvent } from '../../operators/index.js';

type Type = FlowEvent['type'];
/** An event of one type. */
export type EventOf<T extends Type> = Extract<FlowEvent, { readonly type: T }>;

const CALL = 'lane size batchId attempt';

/** What an event of each type has to carry, beside its operator. */
const FIELDS: Readonly<Record<Type, string>> = {
  accepted: 'lane queued',
  dropped: 'lane policy',
  pressure: 'lane queued high',
  queueLong: 'lane queued',
  expired: 'lane deadlineMs',
  batchFormed: 'lane size reason weight waitMs',
  attemptStarted: `${CALL} weight splitDepth executing`,
  attemptEnded: `${CALL} outcome latencyMs`,
  retryScheduled: 'lane size class attempt delayMs',
  split: 'lane size parts depth',
  blamed: 'lane size blamed round',
  settled: 'lane outcome attempts totalMs',
  cancelled: 'lane count',
  abandoned: 'lane',
  documentStarted: 'executing queued',
  documentEnded: 'outcome totalMs items failed',
  itemEnded: 'lane outcome',
  gapSkipped: 'lane missing held',
  swallowed: 'lane',
  hedged: 'lane attempt afterMs',
  cached: 'lane outcome',
  storeFailed: 'action',
  throttled: 'pauseMs',
  hintClamped: 'askedMs pauseMs',
  usageClamped: 'unit reported charged',
  costClamped: 'unit cost charged',
  chargedOnArrival: 'model',
  wouldWait: 'lane limitedBy waitMs queued',
  limitChanged: 'concurrency',
  storeDown: 'operator',
  storeUp: 'operator',
  budgetLow: 'position unit spent limit',
  budgetOverrun: 'position unit limit over',
  breakerChanged: 'state openMs',
  drained: 'operator',
};

/** What every event may carry. */
const STAMP = 'at instance batchId parentBatchId seq traceId spanId';

/** In characters: longer names are cut. */
const LONGEST = 200;

/** A field, and what may stand in it. */
type Field = readonly [name: string, kind: 'string' | 'number' | 'boolean'];

/** By type: worked out when there is the first event of it. */
const fields: Record<string, readonly Field[]> = {};

/**
 * An event made of what was told: the fields that an event of its type has, and none of the others, so that nothing shows up that somebody put beside
 * them. Names are cut at 200 characters. `null` in place of a number is Infinity, which JSON cannot say. Undefined when it is no event.
 */
export function readEvent(value: unknown): FlowEvent | undefined {
  const told = Object(value) as Readonly<Record<string, unknown>>;
  const { type, seqs } = told;
  const event: Record<string, unknown> = { type };
  const needed = fieldsOf(type);
  if (!needed) return undefined;
  for (const [name, kind] of needed) if ((event[name] = readAs(kind, told[name])) === undefined) return undefined;
  for (const [name, kind] of (fields['stamp'] ??= fieldsIn(STAMP))) {
    const read = readAs(kind, told[name]);
    if (typeof read === 'string' || Number.isFinite(read)) event[name] = read;
  }
  if (Array.isArray(seqs)) event['seqs'] = seqs.filter(Number.isFinite);
  return event as unknown as FlowEvent;
}

/** What an event of this type has to carry; undefined when none has it. */
export function fieldsOf(type: unknown): readonly Field[] | undefined {
  if (typeof type !== 'string' || !Object.hasOwn(FIELDS, type)) return undefined;
  return (fields[type] ??= fieldsIn(`operator ${FIELDS[type as Type]}`));
}

function fieldsIn(names: string): Field[] {
  const isText = /Id$|^(operator|instance|lane|policy|reason|outcome|class|action|unit|state|model|limitedBy)$/;
  return names.split(' ').map((name) => [name, isText.test(name) ? 'string' : name === 'high' ? 'boolean' : 'number']);
}

/** Undefined when it is something else. */
export function readAs(kind: Field[1], value: unknown): unknown {
  if (kind === 'number' && value === null) return Infinity;
  if (typeof value !== kind) return undefined;
  return kind === 'string' ? cut(value as string) : value;
}

export function cut(name: string): string {
  return name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name;
}
