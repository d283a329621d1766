import { Subject } from 'rxjs';
import { type FlowEvent } from 'sluice';
import { defineInspector, type Feeding, type InspectorSource, type SluiceInspector } from 'sluice/inspector';
import { createMetrics } from 'sluice/metrics';

const events = new Subject<FlowEvent>();
const feeding: Feeding = (_model, changed) => {
  changed();
  return () => undefined;
};
const source: InspectorSource = [events, createMetrics(), feeding];

defineInspector('my-inspector');
declare const element: SluiceInspector;
element.source = source;
element.lanes = ['user', 'normal'];
element.maxBatchSize = 16;
element.clock = () => 0;
element.pause();
same<string>()(element.export());
