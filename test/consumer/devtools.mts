import { createMetrics } from 'sluice/metrics';
import { type DevtoolsEvents, type DevtoolsOptions, toDevtools } from 'sluice/devtools';

const options: DevtoolsOptions = { key: 'embeddings' };
same<() => void>()(toDevtools(createMetrics(), options));

export function read({ key, events, counters, lanes, limits }: DevtoolsEvents['update']): number {
  same<string>()(key);
  return events.length + counters.calls + lanes.length + limits.length;
}
