import type { Usage } from '../../../operators/types.js';
import { said } from './said.js';
import type { AguiEvent } from './types.js';

/** How a run ended. `'superseded'` by a newer one, `'left'` by whoever listened; `'failed'` for `RUN_ERROR` and for what the agent threw. */
export type AguiOutcome = 'finished' | 'interrupted' | 'cancelled' | 'superseded' | 'left' | 'failed';

/** What `events` of `aguiFlow` tells: names and numbers, no texts. */
export type AguiFlowEvent =
  | { readonly type: 'runStarted'; readonly at: number; readonly threadId: string; readonly runId: string }
  | {
      readonly type: 'runEnded';
      readonly at: number;
      readonly threadId: string;
      readonly runId: string;
      readonly outcome: AguiOutcome;
      /** Of a `RUN_ERROR`. */
      readonly code?: string;
      /** Deltas that came. */
      readonly chunks: number;
      /** Of their texts: the usage of a run that was given up never comes. */
      readonly estimatedTokens: number;
      /** What the agent said it has used. */
      readonly usage?: Usage;
    }
  /** An event that came after the end of its run, and was dropped. */
  | { readonly type: 'eventDropped'; readonly at: number; readonly threadId: string; readonly runId: string; readonly event: string };

/** What `RUN_FINISHED` and `RUN_ERROR` say of tokens, summed over the models. */
export function usageOf({ usage }: AguiEvent): Usage | undefined {
  if (!Array.isArray(usage)) return undefined;
  const sum = (name: string): number | undefined => {
    const found = usage
      .map((entry: unknown) => (Object(entry) as Readonly<Record<string, unknown>>)[name])
      .filter((count) => typeof count === 'number' && count >= 0) as number[];
    return found.length === 0 ? undefined : found.reduce((total, count) => total + count);
  };
  const all = said({ inputTokens: sum('inputTokens'), outputTokens: sum('outputTokens') });
  return Object.keys(all).length === 0 ? undefined : all;
}
