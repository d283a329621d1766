import type { FlowEvent } from '../../operators/types.js';
import type { Sums } from './counters.js';
import { addSums, mapSums, noSums } from './counters.js';
import type { FlowModelOptions } from './flow-model.js';
import { FlowModel } from './flow-model.js';
import type { LimitSample } from './limits.js';
import { sampleOf } from './limits.js';
import { isFault, readEvent } from './read-event.js';

export const RECORDING_FORMAT = 'sluice-recording';
const VERSION = 1;

/** What was counted of a lane before the first event. */
interface LaneBefore {
  readonly name: string;
  readonly accepted: number;
  readonly settled: number;
}

/** What happened, as numbers and names: plain data, to be kept as JSON. */
export interface Recording {
  readonly format: typeof RECORDING_FORMAT;
  readonly version: typeof VERSION;
  readonly name?: string;
  /** Sums from before the first event, where the recording does not begin at the beginning. */
  readonly before: Sums;
  readonly lanesBefore: readonly LaneBefore[];
  /** Tokens as records of calls count them, where there are any. */
  readonly tokens?: number;
  readonly events: readonly FlowEvent[];
  /** What limiters said meanwhile. */
  readonly samples: readonly LimitSample[];
}

/** A text that is no recording, and why. */
export class RecordingError extends Error {
  override readonly name = 'RecordingError';
}

/**
 * The last 2,000 events of a model, with all that is needed to show it as it is, and the sums of what came before them. Percentiles are those of the
 * events that are kept.
 */
export function recordingOf(model: FlowModel, name?: string): Recording {
  const { history: events, samples, recordedTokens: tokens } = model;
  const again = new FlowModel();
  for (const event of events) again.add(event);
  const lanes = new Map(again.lanes.map((lane) => [lane.name, lane]));
  const lanesBefore = model.lanes.map((lane) => {
    const { accepted = 0, settled = 0 } = lanes.get(lane.name) ?? {};
    return { name: lane.name, accepted: lane.accepted - accepted, settled: lane.settled - settled };
  });
  return {
    ...{ format: RECORDING_FORMAT, version: VERSION, ...(name !== undefined && { name }) },
    ...{ before: addSums(model.sums, again.sums, -1), lanesBefore, ...(tokens !== undefined && { tokens }), events, samples },
  };
}

/**
 * A recording as JSON text, which {@link importRecording} opens again, and so does the playground.
 *
 * @example
 * ```ts
 * import { exportRecording, FlowModel, importRecording, replay } from 'sluice/inspector';
 *
 * const model = new FlowModel();
 * model.add({ type: 'accepted', operator: 'batchMap', lane: 'P0', queued: 0, seq: 0, at: 5 });
 * const again = replay(importRecording(exportRecording(model)));
 * again.counters.waiting; // => 1
 * ```
 */
export function exportRecording(model: FlowModel, name?: string): string {
  return JSON.stringify(recordingOf(model, name));
}

/**
 * Opens what {@link exportRecording} wrote, or lines of JSON with an event each. Everything is checked, and what is not known is left out.
 *
 * @throws RecordingError when it is neither; says where, and what was expected.
 */
export function importRecording(text: string): Recording {
  const whole = parsed(text);
  if (typeof whole !== 'object' || whole === null || !('format' in whole)) return ofLines(text);
  const { format, version, name, before, lanesBefore, tokens, events, samples } = whole as Partial<Record<keyof Recording, unknown>>;
  if (format !== RECORDING_FORMAT) throw new RecordingError(`expected \`format\` to be '${RECORDING_FORMAT}'`);
  if (version !== VERSION) throw new RecordingError(`expected \`version\` to be ${String(VERSION)}: another version of sluice wrote it`);
  const sums = Object(before) as Partial<Record<keyof Sums, unknown>>;
  return {
    ...{ format, version, ...(typeof name === 'string' && { name }), ...(typeof tokens === 'number' && { tokens }) },
    before: mapSums((sum) => numberOf(sums[sum])),
    lanesBefore: list('lanesBefore', lanesBefore).map((given) => {
      const { name: lane, accepted, settled } = Object(given) as Partial<Record<keyof LaneBefore, unknown>>;
      return { name: String(lane), accepted: numberOf(accepted), settled: numberOf(settled) };
    }),
    events: list('events', events).map((event, at) => eventOf(event, `event ${String(at + 1)}`)),
    samples: list('samples', samples).map((given) => {
      const { at, name: limiter } = Object(given) as Partial<Record<keyof LimitSample, unknown>>;
      return sampleOf(numberOf(at), String(limiter), given);
    }),
  };
}

/** Events with nothing around them, as a recording. */
export function recordingOfEvents(events: readonly FlowEvent[]): Recording {
  return { format: RECORDING_FORMAT, version: VERSION, before: noSums(), lanesBefore: [], events, samples: [] };
}

/** A model of all that a recording has; what comes after may be added to it. */
export function replay(recording: Recording, options?: FlowModelOptions): FlowModel {
  const model = new FlowModel(options);
  begin(model, recording);
  for (const event of recording.events) model.add(event);
  for (const sample of recording.samples) model.sample(sample);
  return model;
}

/** Lets a model go on from where the recording begins. */
export function begin(model: FlowModel, { before, lanesBefore, tokens }: Recording): void {
  model.before = addSums(model.before, before, 1);
  model.recordedTokens = tokens;
  for (const { name, accepted, settled } of lanesBefore) model.laneBefore(name, accepted, settled);
}

export function isRecording(given: unknown): given is Recording {
  return (Object(given) as Partial<Recording>).format === RECORDING_FORMAT;
}

function ofLines(text: string): Recording {
  const lines = text.split('\n');
  const events = lines.flatMap((line, at) => (line.trim() === '' ? [] : eventOf(parsed(line), `line ${String(at + 1)}`)));
  if (events.length === 0) throw new RecordingError('expected a recording, or lines of JSON with an event each');
  return recordingOfEvents(events);
}

function eventOf(given: unknown, where: string): FlowEvent {
  const event = readEvent(given);
  if (isFault(event)) throw new RecordingError(`${where} is no event: ${given === undefined ? 'it is no JSON' : event.fault}`);
  return event;
}

function list(what: string, given: unknown): readonly unknown[] {
  if (Array.isArray(given)) return given;
  throw new RecordingError(`expected \`${what}\` to be an array`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function numberOf(given: unknown): number {
  return typeof given === 'number' ? given : 0;
}
