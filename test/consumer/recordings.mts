import { connectSource, exportRecording, FlowModel, type InspectorSource, type SluiceInspector } from 'sluice/inspector';
import { importRecording, playRecording, type Recording, RecordingError, type RecordingPlayer, recorded, replay } from 'sluice/inspector';

const recording: Recording = importRecording(exportRecording(new FlowModel(), 'run'));
same<FlowModel>()(replay(recording, { lanes: ['user'] }));
const source: InspectorSource = recorded(recording);
connectSource(source, new FlowModel()).leave();
const fault: Error = new RecordingError('expected a recording');
fault.message;

declare const element: SluiceInspector;
const player: RecordingPlayer = playRecording(element, recording);
same<HTMLElement>()(player.controls);
same<number>()(player.positionMs / player.lengthMs);
same<boolean>()(player.step());
player.speed = 2;
player.seek(Infinity);
player.leave();
