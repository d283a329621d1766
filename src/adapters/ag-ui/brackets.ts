import { said } from './said.js';
import type { AguiEvent } from './types.js';

const EDGE =
  /^(TEXT_MESSAGE|TOOL_CALL|REASONING|REASONING_MESSAGE|THINKING|THINKING_TEXT_MESSAGE|STEP|SUBAGENT)_(START|STARTED|END|FINISHED|ERROR)$/;

/** What an unfinished run has begun, and the events that end it. The protocol lets no run finish while anything is open. */
export class Brackets {
  readonly #open = new Map<string, AguiEvent>();

  see({ type, messageId, toolCallId, stepName, subagentRunId }: AguiEvent): void {
    const [, kind, edge] = EDGE.exec(type) ?? [];
    if (kind === undefined) return;
    const isAgent = kind === 'SUBAGENT';
    // Two agents may have a step of the same name; the end of a text need not say whose it is.
    const key = JSON.stringify([kind, toolCallId ?? messageId ?? stepName, isAgent || kind === 'STEP' ? subagentRunId : 0]);
    if (!edge?.startsWith('START')) this.#open.delete(key);
    else if (!this.#open.has(key)) {
      const more = isAgent ? { message: 'The run was cancelled', code: 'cancelled' } : { messageId, toolCallId, stepName };
      const end = isAgent ? 'ERROR' : stepName === undefined ? 'END' : 'FINISHED';
      this.#open.set(key, { type: `${kind}_${end}`, ...said({ ...more, subagentRunId }) });
    }
  }

  /** The events that end all of it, the last one opened first. */
  close(): AguiEvent[] {
    const ends = [...this.#open.values()].reverse();
    this.#open.clear();
    return ends;
  }
}
