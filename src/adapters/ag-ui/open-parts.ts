import type { AguiEvent } from './types.js';

/** A text, a thought, a tool call, a step, a sub-agent or the run itself that has begun and has not ended. */
export interface OpenPart {
  /** `'TOOL_CALL'` and the like. */
  readonly kind: string;
  readonly id: unknown;
  /** Of its sub-agent. */
  readonly whose: unknown;
  /** What has begun it. */
  readonly start: AguiEvent;
  text: string;
}

const FORM = /^(\w+?)_(START|ARGS|CHUNK|END|FINISH|ERROR)(ED)?$/;
/** What the short form of a text is ended by: any event of its sub-agent, and those of the run as a whole; but these by none. */
const ENDS_ALL = /^(RUN_|MESSAGES_)/;
const ENDS_NONE = /^(RAW|ACTIVITY|SUBAGENT_S|REASONING_ENC)/;

/**
 * What is open in a run, as the client of AG-UI reads its events.
 *
 * @param onEnd - called with each part that an event ends
 */
export function openParts(onEnd?: (part: OpenPart) => void) {
  /** Those that end by an event of their own, in the order they were opened: the run first. */
  const long = new Map<unknown, OpenPart>();
  /** Those in the short form (`CHUNK`): at most one for each sub-agent, which ends when anything else is said there. */
  const short = new Map<unknown, OpenPart>();

  const close = (open: typeof long, key: unknown): void => {
    const part = open.get(key);
    if (part && open.delete(key)) onEnd?.(part);
  };

  const see = (event: AguiEvent): void => {
    const { type, toolCallId, messageId, delta, stepName, subagentRunId } = event;
    const [, kind = '', form] = FORM.exec(type) ?? [];
    const id = toolCallId ?? messageId;
    const whose = subagentRunId ?? undefined;
    const text = typeof delta === 'string' ? delta : '';
    const part = { kind, id, whose, start: event, text };
    if (form === 'CHUNK') {
      const alike = [...short.values()].filter((other) => other.kind === kind);
      const isOnly = whose === undefined && alike.length === 1;
      // It goes on where it is open; without an id it is that of its sub-agent, or the only one there is.
      const before = alike.find((other) => (id === undefined ? isOnly || other.whose === whose : other.id === id));
      if (before) before.text += text;
      else {
        close(short, whose);
        short.set(whose, part);
      }
      return;
    }
    if (ENDS_ALL.test(type)) for (const other of short.keys()) close(short, other);
    else if (!ENDS_NONE.test(type)) close(short, whose);
    // Two agents may have a step of the same name; the end of a text need not say whose it is.
    const key = form && JSON.stringify([kind, id ?? [stepName, whose]]);
    const call = long.get(key);
    if (kind === 'RUN') long.clear();
    if (form === 'START') long.set(key, part);
    else if (form !== 'ARGS') close(long, key);
    else if (call) call.text += text;
  };
  return { long, short, see };
}
