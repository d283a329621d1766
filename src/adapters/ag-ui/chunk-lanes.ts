import type { AguiEvent } from './types.js';

/** A text, a thought or a tool call that is sent in the short form and has not ended. */
export interface ShortText {
  readonly kind: string | undefined;
  readonly id: unknown;
  /** Of the tool, when it is a call. */
  readonly name: unknown;
  /** Of the events of its sub-agent. */
  readonly subagentRunId: unknown;
  text: string;
}

const SHORT = /^(\w+)_CHUNK$/;
/** Of the run as a whole. */
const ENDS_ALL = /^(RUN_|MESSAGES_)/;
const ENDS_NONE = /^(RAW|ACTIVITY|SUBAGENT_S|REASONING_ENC)/;

/** The texts sent in the short form: at most one for each sub-agent, which ends when anything else is said there. As the client of AG-UI reads them. */
export function chunkLanes() {
  const open = new Map<unknown, ShortText>();
  const close = (lane: unknown): ShortText[] => {
    const text = open.get(lane);
    return open.delete(lane) ? [text as ShortText] : [];
  };
  return {
    /** Something is open there, and would be ended by what is put between. */
    isOpen: (subagentRunId: unknown): boolean => open.has(subagentRunId),

    /** What this event has ended. */
    see({ type, messageId, toolCallId, toolCallName: name, delta, subagentRunId: of }: AguiEvent): ShortText[] {
      const subagentRunId = of ?? undefined;
      const kind = SHORT.exec(type)?.[1];
      if (kind === undefined) {
        if (ENDS_ALL.test(type)) return [...open.keys()].flatMap(close);
        return ENDS_NONE.test(type) ? [] : close(subagentRunId);
      }
      const id = toolCallId ?? messageId;
      const text = typeof delta === 'string' ? delta : '';
      const alike = [...open.values()].filter((other) => other.kind === kind);
      const isOnly = subagentRunId === undefined && alike.length === 1;
      // It goes on where it is open; without an id it is that of its sub-agent, or the only one there is.
      const before = alike.find((other) => (id === undefined ? isOnly || other.subagentRunId === subagentRunId : other.id === id));
      if (before) {
        before.text += text;
        return [];
      }
      const ended = close(subagentRunId);
      open.set(subagentRunId, { kind, id, name, subagentRunId, text });
      return ended;
    },
  };
}
