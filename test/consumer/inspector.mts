import { Subject } from 'rxjs';
import { createMetrics, type FlowEvent } from 'sluice';
import {
  type Connection,
  connectSource,
  defineInspector,
  type EventStream,
  exportRecording,
  type FlowCounters,
  FlowModel,
  type FlowModelOptions,
  importRecording,
  type InspectorSource,
  type LaneView,
  type LimitSample,
  type LimitView,
  type RateLevel,
  type Recording,
  RecordingError,
  replay,
  type SluiceInspector,
  type Watched,
} from 'sluice/inspector';

const options: FlowModelOptions = { lanes: ['P0', 'P1'], maxBatchSize: 16 };
const model = new FlowModel(options);
const events = new Subject<FlowEvent>();
const stream: EventStream<FlowEvent> = events;
const watched: Watched = createMetrics();
const source: InspectorSource = [stream, watched];
const connection: Connection = connectSource(source, model, () => undefined);
connection.look();
connection.leave();
same<FlowCounters>()(model.counters);
same<readonly LaneView[]>()(model.lanes);
same<readonly LimitView[]>()(model.limits);
const rate: RateLevel = { unit: 'tokens', left: 5 };
const sample: LimitSample = { at: 0, name: 'provider', executing: 1, concurrency: 2, queued: 0, heldBySlot: 0, heldByRate: 0, pausedForMs: 0, rates: [rate] };
model.sample(sample);
const recording: Recording = importRecording(exportRecording(model, 'run'));
same<FlowModel>()(replay(recording, options));
const fault: Error = new RecordingError('expected a recording');
fault.message;

defineInspector('my-inspector');
declare const element: SluiceInspector;
element.source = source;
element.clock = () => 0;
same<boolean>()(element.step());
element.import(element.export());
