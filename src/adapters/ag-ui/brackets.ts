import { said } from './said.js';
import type { AguiEvent } from './types.js';

const EDGE = /^(?!RUN_)(\w+?)_(START|END|FINISHED|ERROR)(?:ED)?$/;

/**
 * Keeps what an unfinished run has begun, with the event that would end it, the last one opened last. The protocol lets no run finish while anything
 * is open.
 */
export function seeBracket(open: Map<string, AguiEvent>, { type, messageId, toolCallId, stepName, subagentRunId }: AguiEvent): void {
  const [, kind, edge] = EDGE.exec(type) ?? [];
  if (kind === undefined) return;
  const isAgent = kind === 'SUBAGENT';
  const isStep = kind === 'STEP';
  // Two agents may have a step of the same name; the end of a text need not say whose it is.
  const key = JSON.stringify([kind, toolCallId ?? messageId ?? stepName, (isAgent || isStep) && subagentRunId]);
  if (edge !== 'START') open.delete(key);
  else if (!open.has(key)) {
    const names = isAgent ? { message: 'The run was cancelled', code: 'cancelled' } : { messageId, toolCallId, stepName };
    open.set(key, { type: `${kind}_${isAgent ? 'ERROR' : isStep ? 'FINISHED' : 'END'}`, ...said({ ...names, subagentRunId }) });
  }
}
