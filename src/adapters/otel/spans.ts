import type { Attributes, Context, HrTime, SpanContext, Tracer } from '@opentelemetry/api';
import { context, isValidTraceId, ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api';
import type { FlowEvent } from '../../../operators/index.js';
import type { EventOf } from '../../inspector/read-event.js';
import type { CallRecord } from '../../metrics/call-record.js';
import { nameOf } from '../../metrics/collected.js';
import type { OtelNames } from './names.js';

/** Most spans that others may have as their parent, after their end. */
const MAX_PARENTS = 1000;

interface Attempt {
  readonly startedAt: number;
  readonly attributes: Attributes;
  readonly spanId: string | undefined;
  endedAt: number | undefined;
  outcome: string;
  record: CallRecord | undefined;
}

/** A call or a batch on its way, with all its attempts. */
interface Work {
  readonly key: string;
  readonly instance: string;
  /** Undefined when nothing is known of it but its only attempt. */
  readonly kind: 'call' | 'batch' | undefined;
  readonly parent: Context;
  readonly startedAt: number;
  readonly attributes: Attributes;
  readonly attempts: Map<number, Attempt>;
  traceId: string | undefined;
  /** How it ended; its spans are made when its attempts are over, too. */
  end: { readonly at: number; readonly outcome: string } | undefined;
}

/**
 * Makes spans of what events tell, when a call or a batch is over: from then on all is known about it. Until then it is some numbers here, for
 * `maxOpen` at most; of what was forgotten there are no spans.
 */
export class Spans {
  readonly #tracer: Tracer;
  readonly #names: OtelNames;
  readonly #modelAttributes: Attributes;
  readonly #maxOpen: number;
  readonly #open = new Map<string, Work>();
  /** Attempts that a record may come for. */
  readonly #bySpanId = new Map<string, Attempt>();
  readonly #parents = new Map<string, SpanContext>();

  constructor(tracer: Tracer, names: OtelNames, modelAttributes: Attributes, maxOpen: number) {
    this.#tracer = tracer;
    this.#names = names;
    this.#modelAttributes = modelAttributes;
    this.#maxOpen = maxOpen;
  }

  add(event: FlowEvent): void {
    const { batchId, seq } = event;
    if (event.type === 'drained') this.#forget(event);
    if (batchId === undefined) return;
    switch (event.type) {
      case 'accepted':
        if (seq === undefined) this.#begin(event, 'call', {});
        return;
      case 'batchFormed':
        this.#begin(event, 'batch', { [this.#names.size]: event.size, [this.#names.reason]: event.reason });
        return;
      case 'attemptStarted':
        this.#started(event);
        return;
      case 'attemptEnded':
        this.#ended(event);
        return;
      case 'settled':
      case 'cancelled':
      case 'dropped':
      case 'expired':
        this.#over(this.#open.get(keyOf(event)), timeOf(event), event.type === 'settled' ? event.outcome : event.type);
        return;
      default:
    }
  }

  record(record: CallRecord): void {
    const attempt = this.#bySpanId.get(record.spanId);
    if (attempt !== undefined) {
      attempt.record = record;
      return;
    }
    // The events of its caller are not connected to this exporter.
    const endedAt = Date.now();
    const startedAt = endedAt - record.latencyMs;
    const parent = parentOf(context.active(), record.traceId);
    this.#attemptSpan({ startedAt, endedAt, record, attributes: {}, spanId: undefined, outcome: record.status }, parent);
  }

  #begin(event: EventOf<'accepted' | 'batchFormed' | 'attemptStarted'>, kind: Work['kind'], attributes: Attributes): Work {
    const key = keyOf(event);
    const { parentBatchId } = event;
    const above = parentBatchId === undefined ? undefined : this.#parents.get(keyOf({ ...event, batchId: parentBatchId }));
    const active = context.active();
    const work: Work = {
      key,
      instance: instanceKey(event),
      kind,
      parent: above ? trace.setSpanContext(active, above) : active,
      startedAt: timeOf(event),
      attributes: { ...this.#about(event), ...attributes },
      attempts: new Map(),
      traceId: undefined,
      end: undefined,
    };
    this.#open.delete(key);
    this.#open.set(key, work);
    if (this.#open.size > this.#maxOpen) {
      const [oldest] = this.#open.values();
      if (oldest) this.#close(oldest);
    }
    return work;
  }

  #about(event: FlowEvent): Attributes {
    const name = nameOf(event);
    return {
      [this.#names.operator]: event.operator,
      ...(name !== undefined && { [this.#names.instance]: name }),
      ...('lane' in event && { [this.#names.lane]: event.lane }),
    };
  }

  #started(event: EventOf<'attemptStarted'>): void {
    const work = this.#open.get(keyOf(event)) ?? this.#begin(event, undefined, {});
    const { size, weight, attempt: number, splitDepth, spanId, traceId } = event;
    const names = this.#names;
    const attributes = { [names.size]: size, [names.weight]: weight, [names.attempt]: number, [names.splitDepth]: splitDepth };
    const attempt: Attempt = {
      startedAt: timeOf(event),
      attributes: { ...this.#about(event), ...attributes },
      ...{ spanId, endedAt: undefined, outcome: 'cancelled', record: undefined },
    };
    work.attempts.set(number, attempt);
    work.traceId ??= traceId;
    if (spanId !== undefined) this.#bySpanId.set(spanId, attempt);
  }

  #ended(event: EventOf<'attemptEnded'>): void {
    const work = this.#open.get(keyOf(event));
    const attempt = work?.attempts.get(event.attempt);
    // It was under way before listening began.
    if (work === undefined || attempt === undefined) return;
    attempt.endedAt = timeOf(event);
    attempt.outcome = event.outcome;
    // A batch has one call; what is made of a failed one are batches of their own.
    if (work.kind !== 'call') this.#over(work, attempt.endedAt, event.outcome);
    else this.#finish(work);
  }

  #over(work: Work | undefined, at: number, outcome: string): void {
    if (work === undefined) return;
    work.end ??= { at, outcome };
    this.#finish(work);
  }

  #finish(work: Work): void {
    const attempts = [...work.attempts.values()];
    if (work.end === undefined || attempts.some(({ endedAt }) => endedAt === undefined)) return;
    if (work.traceId === undefined) this.#make(work);
    // The record of the last attempt comes right behind its end.
    else
      queueMicrotask(() => {
        if (this.#open.get(work.key) === work) this.#make(work);
      });
  }

  #make(work: Work): void {
    const { kind, traceId, end, startedAt, attributes } = work;
    if (end === undefined) return;
    this.#close(work);
    let parent = parentOf(work.parent, traceId);
    if (kind !== undefined) {
      const name = kind === 'call' ? this.#names.callSpan : this.#names.batchSpan;
      const span = this.#tracer.startSpan(name, { startTime: hrTime(startedAt), attributes }, parent);
      span.setAttribute(this.#names.outcome, end.outcome);
      if (!isGood(end.outcome)) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end(hrTime(end.at));
      const made = span.spanContext();
      this.#remember(work.key, made);
      parent = trace.setSpanContext(parent, made);
    }
    for (const attempt of work.attempts.values()) {
      const made = this.#attemptSpan(attempt, parent);
      if (kind === undefined) this.#remember(work.key, made);
    }
  }

  #attemptSpan({ startedAt, endedAt = startedAt, attributes, outcome, record }: Attempt, parent: Context): SpanContext {
    const names = this.#names;
    const name = record ? `${names.modelSpan} ${record.model}` : names.attemptSpan;
    const kind = record ? SpanKind.CLIENT : SpanKind.INTERNAL;
    const span = this.#tracer.startSpan(name, { kind, startTime: hrTime(startedAt), attributes }, parent);
    span.setAttribute(names.outcome, outcome);
    if (record) span.setAttributes(this.#modelAttributesOf(record));
    if (!isGood(outcome)) {
      span.setAttribute(names.errorType, record?.errorCode ?? outcome);
      span.setStatus({ code: SpanStatusCode.ERROR });
    }
    span.end(hrTime(endedAt));
    return span.spanContext();
  }

  #modelAttributesOf({ lane, model, attempt, name, traceId, promptTokens, completionTokens }: CallRecord): Attributes {
    const names = this.#names;
    return {
      ...this.#modelAttributes,
      ...{ [names.lane]: lane, [names.model]: model, [names.attempt]: attempt, [names.callName]: name, [names.traceId]: traceId },
      ...(promptTokens !== null && { [names.inputTokens]: promptTokens }),
      ...(completionTokens !== null && { [names.outputTokens]: completionTokens }),
    };
  }

  #remember(key: string, made: SpanContext): void {
    this.#parents.delete(key);
    this.#parents.set(key, made);
    if (this.#parents.size <= MAX_PARENTS) return;
    const [oldest] = this.#parents.keys();
    if (oldest !== undefined) this.#parents.delete(oldest);
  }

  #close({ key, attempts }: Work): void {
    this.#open.delete(key);
    for (const { spanId } of attempts.values()) if (spanId !== undefined) this.#bySpanId.delete(spanId);
  }

  /** Closes the open work of an instance that will emit no more events. */
  #forget(event: FlowEvent): void {
    const instance = instanceKey(event);
    for (const work of this.#open.values()) if (work.instance === instance && work.end === undefined) this.#close(work);
  }
}

function instanceKey({ operator, instance = '' }: FlowEvent): string {
  return `${operator}/${instance}`;
}

function keyOf(event: FlowEvent): string {
  return `${instanceKey(event)}/${event.batchId ?? ''}`;
}

function timeOf({ at = Date.now() }: FlowEvent): number {
  return at;
}

/** A cancelled call counts as good: the caller left, and nothing failed. */
function isGood(outcome: string): boolean {
  return ['ok', 'fulfilled', 'success', 'cancelled'].includes(outcome);
}

/** Not as a number: a small one would count from the start of the process. */
function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}

/** The active span; without one, the trace that records name, below a span that is not there: all calls of a group are together. */
function parentOf(active: Context, traceId: string | undefined): Context {
  if (traceId === undefined || !isValidTraceId(traceId) || trace.getSpanContext(active) !== undefined) return active;
  const spanId = /^0+$/.test(traceId.slice(16)) ? traceId.slice(0, 16) : traceId.slice(16);
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true });
}
