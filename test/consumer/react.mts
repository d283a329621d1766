import { NEVER, of } from 'rxjs';
import { createMetrics, type MetricsSnapshot } from 'sluice/metrics';
import { toStore } from 'sluice/operators';
import {
  type AgentTurnHandle,
  type AgentTurnView,
  type FlowStore,
  type FlowValueOptions,
  useAgentTurn,
  useFlow,
  type UseFlowOptions,
  useFlowStats,
  useFlowValue,
} from 'sluice/react';

const store: FlowStore<{ readonly text: string }> = toStore(NEVER, { text: '' });
const options: FlowValueOptions = { updates: 'concurrent' };
const flow: UseFlowOptions = { ...options, keepAliveMs: 50, pace: 'frame' };
const source = createMetrics();

interface View extends AgentTurnView {
  readonly status: 'idle' | 'running';
  readonly text: string;
}

/** Hooks run in components. */
export function Component(): void {
  same<{ readonly text: string }>()(useFlowValue(store));
  same<number>()(useFlowValue(store, ({ text }) => text.length, (a, b) => a === b, options));
  same<number | string>()(useFlow<number, string>(() => of(1), 'none', flow));
}
