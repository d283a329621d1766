import { type InspectorSource, importRecording, playRecording, type Recording, type RecordingPlayer, recorded, type SluiceInspector } from 'sluice/inspector';

declare const element: SluiceInspector;
const recording: Recording = importRecording('{}');
const whole: InspectorSource = recorded(recording);
element.source = whole;
const player: RecordingPlayer = playRecording(element, recording);
player.leave();
