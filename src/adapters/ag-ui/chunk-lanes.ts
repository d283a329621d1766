import type { AguiEvent } from './types.js';

/** A text, a thought or a tool call that is sent in the short form and has not ended. */
export interface ShortText {
  readonly kind: string;
  readonly id: unknown;
  /** Of the tool, when it is a call. */
  readonly name: unknown;
  /** Of the events of its sub-agent. */
  readonly subagentRunId: unknown;
  text: string;
}

const SHORT = /^(TEXT_MESSAGE|REASONING_MESSAGE|TOOL_CALL)_CHUNK$/;
/** Of the run as a whole. */
const ENDS_ALL = /^(?:RUN_|MESSAGES_SNAPSHOT$)/;
const ENDS_ITS_OWN = /^(?:TEXT_|TOOL_|STATE_|STEP_|THINKING_|CUSTOM$|SUBAGENT_[FE]|REASONING_(?!ENCRYPTED))/;

/** The texts sent in the short form: at most one for each sub-agent, which ends when anything else is said there. As the client of AG-UI reads them. */
export class ChunkLanes {
  readonly #open = new Map<unknown, ShortText>();

  /** Something is open there, and would be ended by what is put between. */
  isOpen(subagentRunId: unknown): boolean {
    return this.#open.has(subagentRunId);
  }

  /** What this event has ended. */
  see(event: AguiEvent): ShortText[] {
    const { type, subagentRunId } = event;
    const [, kind] = SHORT.exec(type) ?? [];
    if (kind !== undefined) return this.#continue(kind, event);
    if (ENDS_ALL.test(type)) return [...this.#open.keys()].flatMap((lane) => this.#close(lane));
    return ENDS_ITS_OWN.test(type) ? this.#close(subagentRunId ?? undefined) : [];
  }

  #continue(kind: string, event: AguiEvent): ShortText[] {
    const { messageId, toolCallId, toolCallName: name, delta } = event;
    const id = kind === 'TOOL_CALL' ? toolCallId : messageId;
    const lane = this.#laneOf(kind, id, event['subagentRunId'] ?? undefined);
    const before = this.#open.get(lane);
    const text = typeof delta === 'string' ? delta : '';
    if (before?.kind === kind && (id === undefined || id === before.id)) {
      before.text += text;
      return [];
    }
    const ended = this.#close(lane);
    this.#open.set(lane, { kind, id, name, subagentRunId: lane, text });
    return ended;
  }

  /** A text goes on where it is open; without an id, the one of its sub-agent, or else the only one there is. */
  #laneOf(kind: string, id: unknown, subagentRunId: unknown): unknown {
    const alike = [...this.#open].filter(([, open]) => open.kind === kind);
    if (id !== undefined) return (alike.find(([, open]) => open.id === id) ?? [subagentRunId])[0];
    if (subagentRunId !== undefined || this.#open.get(undefined)?.kind === kind || alike.length !== 1) return subagentRunId;
    return alike[0]?.[0];
  }

  #close(lane: unknown): ShortText[] {
    const open = this.#open.get(lane);
    this.#open.delete(lane);
    return open === undefined ? [] : [open];
  }
}
