export { defineInspector } from './define.js';
export type { Recording } from './export-recording.js';
export type { SluiceInspector } from './inspector-types.js';
export type { RecordingPlayer } from './play-recording.js';
export { playRecording } from './play-recording.js';
export { importRecording, recorded } from './recording.js';
export type { Feeding, InspectorSource } from './source.js';
