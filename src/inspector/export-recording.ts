import type { FlowEvent } from '../../operators/index.js';
import type { LaneSums, Sums } from './counters.js';
import type { FlowModel } from './flow-model.js';
import type { LimitSample } from './limits.js';

/**
 * What happened, as numbers and names: plain data, to be kept as JSON.
 * @beta
 */
export interface Recording {
  readonly format: 'sluice-recording';
  readonly version: 2;
  readonly name?: string | undefined;
  /** What was counted at its end, in all and by lane: also what came before the first event. Undefined of events with nothing around them. */
  readonly sums?: Sums | undefined;
  readonly lanes?: readonly LaneSums[] | undefined;
  /** Tokens as records of calls count them, where there are any. */
  readonly tokens?: number | undefined;
  readonly events: readonly FlowEvent[];
  /** What limiters said meanwhile. */
  readonly samples: readonly LimitSample[];
}

/**
 * The last 2,000 events of a model, with all that is needed to show it as it is, as JSON text: `importRecording` of `sluice/inspector` opens it again, and so
 * does the playground. Percentiles are those of the events that are kept.
 */
export function exportRecording({ sums, lanes, recordedTokens: tokens, history: events, samples }: FlowModel, name?: string): string {
  const recording: Recording = { format: 'sluice-recording', version: 2, name, sums, lanes, tokens, events, samples };
  return JSON.stringify(recording);
}
