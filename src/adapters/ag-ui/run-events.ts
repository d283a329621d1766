import { check } from '../../../operators/build.js';
import type { Usage } from '../../../operators/index.js';
import type { AguiEvent } from './types.js';

/** How a run ended. `'superseded'` by a newer one, `'left'` by whoever listened; `'failed'` for `RUN_ERROR` and for what the agent threw. */
export type AguiOutcome = 'finished' | 'interrupted' | 'cancelled' | 'superseded' | 'left' | 'failed';

/**
 * What `events` of `aguiFlow` tells: names and numbers, no texts.
 * @beta
 */
export type AguiFlowEvent =
  | { readonly type: 'runStarted'; readonly at: number; readonly threadId: string; readonly runId: string }
  | {
      readonly type: 'runEnded';
      readonly at: number;
      readonly threadId: string;
      readonly runId: string;
      readonly outcome: AguiOutcome;
      /** Of a `RUN_ERROR`. */
      readonly code: string | undefined;
      /** Deltas that came. */
      readonly chunks: number;
      /** Of their texts: the usage of a run that was given up never comes. */
      readonly estimatedTokens: number;
      /** What the agent said it has used. */
      readonly usage: Usage | undefined;
    }
  /** An event that came after the end of its run, and was dropped. */
  | { readonly type: 'eventDropped'; readonly at: number; readonly threadId: string; readonly runId: string; readonly event: string };

/** How an event ends its run; undefined for one that does not. */
export function endOf({ type, code, outcome }: AguiEvent): AguiOutcome | undefined {
  if (type === 'RUN_ERROR') return code === 'abort' ? 'cancelled' : 'failed';
  if (type !== 'RUN_FINISHED') return undefined;
  const how = (outcome as { readonly type?: unknown } | undefined)?.type;
  return how === 'interrupt' ? 'interrupted' : how === 'cancelled' ? how : 'finished';
}

/** What `RUN_FINISHED` and `RUN_ERROR` say of tokens, summed over the models. */
export function usageOf(event: AguiEvent | undefined): Usage | undefined {
  let all: { inputTokens?: number; outputTokens?: number } | undefined;
  for (const entry of [event?.['usage']].flat()) {
    for (const name of ['inputTokens', 'outputTokens'] as const) {
      const count = (entry as Record<string, unknown> | undefined)?.[name];
      if (check.isAmount(count)) all = { ...all, [name]: (all?.[name] ?? 0) + count };
    }
  }
  return all;
}
