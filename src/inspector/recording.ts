import type { FlowEvent } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';
import type { LaneSums, Sums } from './counters.js';
import { NO_SUMS } from './counters.js';
import { faultOf } from './event-fault.js';
import type { Recording } from './export-recording.js';
import type { FlowModelOptions } from './flow-model.js';
import { FlowModel } from './flow-model.js';
import type { LimitSample } from './limits.js';
import { sampleOf } from './limits.js';
import { cut, readEvent } from './read-event.js';
import type { Feeding } from './source.js';

const VERSION = 2;

/** A text that is no recording, why, and what to do about it. */
export class RecordingError extends Error {
  override readonly name = 'RecordingError';
  readonly code = 'RECORDING_INVALID';

  constructor(
    message: string,
    /** Where in the text: `line 3`, `event 7`, `events`. Undefined of the whole. */
    readonly place?: string,
  ) {
    super(message);
  }
}

const REPAIR = 'export the recording again, or take this out of it';

/**
 * Opens what `exportRecording` wrote, or lines of JSON with an event each. Everything is checked, and what is not known is left out.
 *
 * @beta
 * @throws RecordingError when it is neither; says where, and what was expected. FlowConfigError for what is no text.
 * @example
 * ```ts
 * import { importRecording } from 'sluice/inspector';
 *
 * const line = JSON.stringify({ type: 'accepted', operator: 'batchMap', lane: 'user', queued: 0, seq: 0, at: 5 });
 * importRecording(line).events.length; // => 1
 * ```
 */
export function importRecording(text: string): Recording {
  if (typeof text !== 'string') throw new FlowConfigError('importRecording', 'text', 'a text', text);
  const whole = parsed(text);
  if (typeof whole !== 'object' || whole === null || !('format' in whole)) return ofLines(text);
  const { format, version, name, sums, lanes, tokens, events, samples } = whole as Partial<Record<keyof Recording, unknown>>;
  if (format !== 'sluice-recording') throw new RecordingError("expected `format` to be 'sluice-recording'", 'format');
  if (version !== VERSION)
    throw new RecordingError(`expected \`version\` to be ${VERSION}: another version of sluice wrote it; open it with that one`, 'version');
  return {
    ...{ format, version, ...(typeof name === 'string' && { name }), ...(typeof tokens === 'number' && { tokens }) },
    ...(sums !== undefined && { sums: mapSums((sum) => numberOf(sums, sum)) }),
    lanes: list('lanes', lanes ?? []).map((lane) => ({
      ...{ name: cut(String((Object(lane) as Partial<LaneSums>).name)) },
      ...{ accepted: numberOf(lane, 'accepted'), settled: numberOf(lane, 'settled') },
    })),
    events: list('events', events).map((event, at) => eventOf(event, `event ${at + 1}`)),
    samples: list('samples', samples).map(readSample),
  };
}

/**
 * A model of all that a recording has; what comes after may be added to it.
 */
export function replay(recording: Recording, options?: FlowModelOptions): FlowModel {
  const model = new FlowModel(options);
  takeIn(model, recording);
  return model;
}

/**
 * A recording as a source of an inspector, with all it has at once; a source behind it goes on from there: `source = [recorded(recording), live]`.
 *
 * @beta
 */
export function recorded(recording: Recording): Feeding {
  return (model, changed) => {
    takeIn(model, recording);
    changed();
    return undefined;
  };
}

function takeIn(model: FlowModel, recording: Recording): void {
  for (const event of recording.events) model.add(event);
  for (const sample of recording.samples) model.sample(sample);
  addBefore(model, recording);
}

/** Adds what was counted before the first event. */
export function addBefore(model: FlowModel, { events, sums, lanes = [], tokens }: Recording): void {
  const again = new FlowModel();
  for (const event of events) again.add(event);
  const known = new Map(again.lanes.map((lane) => [lane.name, lane]));
  const before = lanes.map(({ name, accepted, settled }) => ({
    ...{ name, accepted: accepted - (known.get(name)?.accepted ?? 0), settled: settled - (known.get(name)?.settled ?? 0) },
  }));
  model.addCounted(
    mapSums((name) => (sums ? sums[name] - again.sums[name] : 0)),
    before,
  );
  model.recordedTokens = tokens;
}

function mapSums(make: (name: keyof Sums) => number): Sums {
  const sums: Sums = { ...NO_SUMS };
  for (const name of Object.keys(sums) as (keyof Sums)[]) sums[name] = make(name);
  return sums;
}

function ofLines(text: string): Recording {
  const lines = text.split('\n');
  const events = lines.flatMap((line, at) => (line.trim() === '' ? [] : eventOf(parsed(line), `line ${at + 1}`)));
  if (events.length === 0) throw new RecordingError('expected a recording, or lines of JSON with an event each');
  return { format: 'sluice-recording', version: VERSION, events, samples: [] };
}

function eventOf(given: unknown, where: string): FlowEvent {
  const event = readEvent(given);
  if (event) return event;
  throw new RecordingError(`${where} is no event: ${given === undefined ? 'it is no JSON' : faultOf(given)}; ${REPAIR}`, where);
}

function readSample(given: unknown): LimitSample {
  const told = Object(given) as Partial<Record<keyof LimitSample, unknown>>;
  const { rates, pausedForMs, name } = told;
  return sampleOf(numberOf(told, 'at'), String(name), {
    ...told,
    // As JSON says it.
    ...(pausedForMs === null && { pausedForMs: Infinity }),
    rates: (Array.isArray(rates) ? rates : []).slice(0, 20).map(Object),
  });
}

function list(what: string, given: unknown): readonly unknown[] {
  if (Array.isArray(given)) return given;
  throw new RecordingError(`expected \`${what}\` to be an array; ${REPAIR}`, what);
}

function parsed(text: string): unknown {
  try {
    // Without the mark of the byte order, too.
    return JSON.parse(text.trim());
  } catch {
    return undefined;
  }
}

function numberOf(given: unknown, field: string): number {
  const value = (Object(given) as Readonly<Record<string, unknown>>)[field];
  return typeof value === 'number' ? value : 0;
}
