import type { ChatTransport, UIMessage, UIMessageChunk } from 'ai';
import { check } from '../../../operators/build.js';
import { FlowConfigError } from '../../../operators/index.js';
import type { DeltaOptions, DeltaRule } from '../support/coalesce-deltas.js';
import { coalesceDeltas, DELTA_DEFAULTS, deltaChecks } from '../support/coalesce-deltas.js';
import { drawnStream } from '../support/drawn.js';
import { Run } from './latest-run.js';

/**
 * How fast deltas are shown, and what becomes of an answer that is asked for again.
 * @beta
 */
export interface FlowTransportOptions extends DeltaOptions {
  /** Whether a new message aborts the answer to the one before it in the same chat. @defaultValue true */
  readonly supersede?: boolean;
}

const NAME = 'flowTransport';
const DEFAULTS = { ...DELTA_DEFAULTS, supersede: true } as const;

/**
 * A transport for `useChat` (or `Chat`) around another one: deltas that come faster than a page can show them are merged, and of several
 * questions in one chat the newest is answered: the request of the older one is aborted before the newer one is sent, so its server can stop.
 *
 * - **Merges** `text-delta` and `reasoning-delta` of the same part, and `tool-input-delta` of the same call, unless they carry metadata. Those of
 *   several parts wait side by side. Every other chunk goes at once, behind all that waits; text and order of chunks stay the same.
 * - **Emits when** the first delta has waited `maxWaitMs`, a frame comes (`pace: 'frame'`), `maxChars` are reached, before any other chunk,
 *   and at the end.
 * - **Holds at most** `maxChars` characters, and reads on only while the chat waits.
 * - **Supersedes** by `chatId`. The stream of the older answer errors with an `AbortError` as soon as the newer one has begun (or failed), behind what waits,
 *   as after `stop()`; `onFinish` is told `isAbort`. A `reconnectToStream` takes the place of an older one, never that of a message.
 * - **On cancel** the request is aborted and what waits is dropped. When `abortSignal` aborts (`stop()`) the request is aborted too, but what waits is
 *   given before the stream errors with the reason of the signal, an `AbortError` unless it has another.
 *
 * For AI SDK 6 and 7. Errors of the other transport pass through.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `transport` is none, or an option is unknown or out of range.
 * @example
 * ```ts no-run
 * const chat = useChat({ transport: flowTransport(new DefaultChatTransport({ api: '/api/chat' }), { pace: 'frame' }) });
 * ```
 * @example
 * ```ts
 * import { flowTransport } from 'sluice/ai-sdk';
 *
 * const deltas = ['Hel', 'lo'].map((delta) => ({ type: 'text-delta', id: 't1', delta }) as const);
 * const answer = () =>
 *   new ReadableStream({
 *     start: (controller) => {
 *       for (const chunk of deltas) controller.enqueue(chunk);
 *       controller.close();
 *     },
 *   });
 * const transport = flowTransport({ sendMessages: async () => answer(), reconnectToStream: async () => null });
 * const stream = await transport.sendMessages({ chatId: 'c', messages: [], trigger: 'submit-message', messageId: undefined, abortSignal: undefined });
 * (await stream.getReader().read()).value; // => { type: 'text-delta', id: 't1', delta: 'Hello' }
 * ```
 * @see {@link coalesceText} for the same at the server, in `streamText`.
 */
export function flowTransport<M extends UIMessage>(transport: ChatTransport<M>, options: FlowTransportOptions = {}): ChatTransport<M> {
  checkTransport(transport);
  const { supersede, ...pace } = check.options(NAME, options, DEFAULTS, { ...deltaChecks, supersede: check.flag });
  const merging = coalesceDeltas(NAME, DELTAS, pace as DeltaOptions);
  const sends = new Map<string, Run>();
  const reconnects = new Map<string, Run>();

  const begin = (runs: Map<string, Run>, chatId: string, signal: AbortSignal | undefined): Run => {
    const run: Run = new Run(signal, () => {
      if (runs.get(chatId) === run) runs.delete(chatId);
    });
    if (supersede) {
      runs.get(chatId)?.supersede(run);
      if (runs === sends) reconnects.get(chatId)?.supersede(run);
      runs.set(chatId, run);
    }
    return run;
  };
  const { close, resumeStreamIsReplay } = transport as { readonly close?: () => void; readonly resumeStreamIsReplay?: boolean };

  return {
    ...(resumeStreamIsReplay !== undefined && { resumeStreamIsReplay }),
    ...(close !== undefined && { close: close.bind(transport) }),
    sendMessages: async (given) => {
      const run = begin(sends, given.chatId, given.abortSignal);
      const stream = await run.opened((abortSignal) => transport.sendMessages({ ...given, abortSignal }));
      return drawnStream(run.carried(stream), merging);
    },
    reconnectToStream: async (given) => {
      const run = begin(reconnects, given.chatId, given.abortSignal);
      const stream = await run.opened((abortSignal) => transport.reconnectToStream({ ...given, abortSignal }));
      return stream === null ? null : drawnStream(run.carried(stream), merging);
    },
  };
}

const DELTAS: DeltaRule<UIMessageChunk> = {
  key: (chunk) => {
    // What it says besides belongs to this one delta.
    const isBare = Object.values(chunk).filter((value) => value !== undefined).length === 3;
    if (!isBare) return undefined;
    if (chunk.type === 'text-delta' || chunk.type === 'reasoning-delta') return `${chunk.type} ${chunk.id}`;
    return chunk.type === 'tool-input-delta' ? `${chunk.type} ${chunk.toolCallId}` : undefined;
  },
  text: textOf,
  join: (first, next) => {
    const text = textOf(first) + textOf(next);
    return first.type === 'tool-input-delta' ? { ...first, inputTextDelta: text } : ({ ...first, delta: text } as UIMessageChunk);
  },
  beside: () => true,
};

function textOf(chunk: UIMessageChunk): string {
  if (chunk.type === 'tool-input-delta') return chunk.inputTextDelta;
  return chunk.type === 'text-delta' || chunk.type === 'reasoning-delta' ? chunk.delta : '';
}

function checkTransport(transport: unknown): void {
  const { sendMessages, reconnectToStream } = Object(transport) as Partial<Record<string, unknown>>;
  if (typeof sendMessages === 'function' && typeof reconnectToStream === 'function') return;
  throw new FlowConfigError(NAME, 'transport', 'a ChatTransport of the AI SDK', transport);
}
