import type { FlowEvent } from '../../operators/index.js';

/** Tests that were written before events had a stamp compare them without it. */
export function unstamped<O extends { readonly onEvent?: (event: FlowEvent) => void }>(options: O): O {
  const { onEvent } = options;
  if (typeof onEvent !== 'function') return options;
  return {
    ...options,
    onEvent: ({ at: _at, instance: _instance, seq: _seq, seqs: _seqs, parentBatchId: _parent, ...event }: FlowEvent) => {
      onEvent(event);
    },
  };
}
