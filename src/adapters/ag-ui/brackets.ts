import type { AguiEvent } from './types.js';

/** What opens with `_START` and is closed with `_END`. */
const PAIRS = /^((?:TEXT_MESSAGE|TOOL_CALL|REASONING|REASONING_MESSAGE|THINKING|THINKING_TEXT_MESSAGE)_)(START|END)$/;

/** What an unfinished run has begun, and the events that end it. The protocol lets no run finish while anything is open. */
export class Brackets {
  readonly #open = new Map<string, AguiEvent>();

  see(event: AguiEvent): void {
    const { type, messageId, toolCallId, stepName, subagentRunId } = event;
    const pair = PAIRS.exec(type);
    if (pair !== null) {
      const [, kind = '', edge] = pair;
      const ids = toolCallId === undefined ? (messageId === undefined ? {} : { messageId }) : { toolCallId };
      this.#turn(edge === 'START', `${kind}${String(toolCallId ?? messageId)}`, { type: `${kind}END`, ...ids, ...ownerOf(event) });
    } else if (type === 'STEP_STARTED' || type === 'STEP_FINISHED') {
      // Two agents may have a step of the same name.
      const key = JSON.stringify([stepName, subagentRunId]);
      this.#turn(type === 'STEP_STARTED', key, { type: 'STEP_FINISHED', stepName, ...ownerOf(event) });
    } else if (/^SUBAGENT_(STARTED|FINISHED|ERROR)$/.test(type)) {
      const end = { type: 'SUBAGENT_ERROR', subagentRunId, message: 'The run was cancelled', code: 'cancelled' };
      this.#turn(type === 'SUBAGENT_STARTED', `SUBAGENT ${String(subagentRunId)}`, end);
    }
  }

  /** The events that end all of it, the last one opened first. */
  close(): AguiEvent[] {
    const ends = [...this.#open.values()].reverse();
    this.#open.clear();
    return ends;
  }

  #turn(opens: boolean, key: string, end: AguiEvent): void {
    if (!opens) this.#open.delete(key);
    else if (!this.#open.has(key)) this.#open.set(key, end);
  }
}

function ownerOf({ subagentRunId }: AguiEvent) {
  return subagentRunId === undefined ? {} : { subagentRunId };
}
