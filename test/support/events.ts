import type { FlowSink } from '../../operators/index.js';

/** Hears what happened without when, where and to which items: for tests that compare whole events. */
export function unstamped(sink: FlowSink): FlowSink {
  return ({ at: _at, instance: _instance, seq: _seq, seqs: _seqs, parentBatchId: _parent, ...event }) => {
    sink(event);
  };
}
