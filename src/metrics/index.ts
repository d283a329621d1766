export type { CallRecord } from './call-record.js';
export type { Metrics, MetricsOptions, MetricsSnapshot } from './create-metrics.js';
export { createMetrics } from './create-metrics.js';
export type { LogFields } from './log-fields.js';
export { logFields } from './log-fields.js';
