import { Subject } from 'rxjs';
import { type FlowEvent } from 'sluice';
import { createMetrics } from 'sluice/metrics';
import {
  type Connection,
  connectSource,
  defineInspector,
  type EventStream,
  exportRecording,
  type Feeding,
  type FlowCounters,
  FlowModel,
  type FlowModelOptions,
  type InspectorSource,
  type LaneSums,
  type LaneView,
  type LimitSample,
  type LimitView,
  type RateLevel,
  type Recording,
  type SluiceInspector,
  type Sums,
  type Watched,
} from 'sluice/inspector';

const options: FlowModelOptions = { lanes: ['user', 'normal'], maxBatchSize: 16 };
const model = new FlowModel(options);
const events = new Subject<FlowEvent>();
const stream: EventStream<FlowEvent> = events;
const watched: Watched = createMetrics();
const feeding: Feeding = (into, changed) => {
  into.add({ type: 'drained', operator: 'mine' });
  changed(true);
  return undefined;
};
const source: InspectorSource = [stream, watched, feeding];
const connection: Connection = connectSource(source, model, () => undefined);
connection.look();
connection.leave();
same<FlowCounters>()(model.counters);
same<readonly LaneView[]>()(model.lanes);
same<readonly LimitView[]>()(model.limits);
const rate: RateLevel = { unit: 'tokens', left: 5 };
const sample: LimitSample = { at: 0, name: 'provider', executing: 1, concurrency: 2, queued: 0, heldBySlot: 0, heldByRate: 0, pausedForMs: 0, rates: [rate] };
model.sample(sample);
same<string>()(exportRecording(model, 'run'));
declare const recording: Recording;
same<Sums | undefined>()(recording.sums);
same<readonly LaneSums[] | undefined>()(recording.lanes);

defineInspector('my-inspector');
declare const element: SluiceInspector;
element.source = source;
element.clock = () => 0;
element.pause();
same<string>()(element.export());
