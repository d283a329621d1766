export type { Recording } from './inspector/export-recording.js';
export type { RecordingPlayer } from './inspector/play-recording.js';
export { playRecording } from './inspector/play-recording.js';
export { importRecording, RecordingError, recorded, replay } from './inspector/recording.js';
