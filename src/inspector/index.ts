export type { FlowCounters, LaneView } from './counters.js';
export type { FlowModelOptions } from './flow-model.js';
export { FlowModel } from './flow-model.js';
export type { LimitSample, LimitView, RateLevel } from './limits.js';
export type { Recording } from './recording.js';
export { exportRecording, importRecording, RecordingError, replay } from './recording.js';
export type { Connection, EventStream, InspectorSource, Watched } from './source.js';
export { connectSource } from './source.js';
