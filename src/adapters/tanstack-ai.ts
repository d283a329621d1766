import { onAbort } from '../../operators/build.js';
import { FlowConfigError } from '../../operators/index.js';
import { AGUI_DELTAS } from './ag-ui/coalesce-events.js';
import type { AguiEvent } from './ag-ui/types.js';
import type { DeltaOptions } from './support/coalesce-deltas.js';
import { coalesceDeltas } from './support/coalesce-deltas.js';
import type { Drawn } from './support/drawn.js';
import { drawn } from './support/drawn.js';
import { relayedSignal } from './support/relayed-signal.js';

export type { DeltaOptions } from './support/coalesce-deltas.js';

/**
 * What `stream()` of TanStack AI takes: messages, data and a signal in, events out.
 * @beta
 */
export type StreamFactory<A extends readonly unknown[] = never, E = unknown> = (...args: A) => AsyncIterable<E>;

/**
 * What `useChat` of TanStack AI takes: `fetchServerSentEvents(url)` and the like.
 * @beta
 */
export interface StreamConnection<A extends readonly unknown[] = never, E = unknown> {
  readonly connect: StreamFactory<A, E>;
}

const NAME = 'flowStream';

/**
 * Merges the deltas of a chat of TanStack AI, which takes a turn of the event loop, and often a render, for every event: a burst of 2,000 deltas
 * takes it seconds, a few merged ones milliseconds. For the factory that `stream()` takes, or for a connection.
 *
 * - **Merges** what `coalesceEvents` of `sluice/ag-ui` merges: TanStack AI streams the events of AG-UI. Every other event goes at once, behind all that waits.
 * - **Emits when** the first delta has waited `maxWaitMs`, a frame comes (`pace: 'frame'`), `maxChars` are reached, before any other event, and at
 *   the end, an error included.
 * - **Holds at most** `maxChars` characters, and reads on only while the chat waits.
 * - **On leaving**, and when the chat's signal aborts, the signal that the factory was given aborts, and its stream is left. A consumer that leaves
 *   gets nothing more; when the signal aborts, waiting events are delivered before its reason is thrown.
 *
 * Opens the stream anew for each `for await`. Nothing of TanStack AI is imported.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `source` is neither, or an option is unknown or out of range.
 * @example
 * ```ts no-run
 * const chat = useChat({ connection: flowStream(fetchServerSentEvents('/api/chat')) });
 * ```
 * @example
 * ```ts
 * import { flowStream } from 'sluice/tanstack-ai';
 *
 * async function* answer(_messages: unknown[]) {
 *   for (const delta of ['Hel', 'lo']) yield { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta };
 *   yield { type: 'TEXT_MESSAGE_END', messageId: 'm' };
 * }
 * const seen: unknown[] = [];
 * for await (const event of flowStream(answer)([])) seen.push('delta' in event ? event.delta : event.type);
 * seen; // => ['Hello', 'TEXT_MESSAGE_END']
 * ```
 */
export function flowStream<A extends readonly unknown[], E>(
  source: (...args: A) => AsyncIterable<E>,
  options?: DeltaOptions,
): (...args: A) => AsyncIterable<E>;
export function flowStream<C extends StreamConnection>(source: C, options?: DeltaOptions): C;
export function flowStream(source: Factory | { readonly connect: Factory }, options: DeltaOptions = {}): unknown {
  const merging = coalesceDeltas(NAME, AGUI_DELTAS, options);
  const flowing =
    (open: Factory): Factory =>
    (...args) => ({ [Symbol.asyncIterator]: () => opened(open, args, (events) => drawn(events, merging)) });
  if (typeof source === 'function') return flowing(source);
  const { connect } = Object(source) as Partial<typeof source>;
  if (typeof connect !== 'function') throw new FlowConfigError(NAME, 'source', 'a function, or a connection with `connect`', source);
  return { ...source, connect: flowing((...args) => connect.apply(source, args)) };
}

type Factory = (...args: unknown[]) => AsyncIterable<AguiEvent>;

/** Where the signal stands among the arguments of a factory. */
const SIGNAL = 2;

/** One run: its signal aborts when it is left, too. */
function opened(open: Factory, args: readonly unknown[], draw: (events: AsyncIterable<AguiEvent>) => Drawn<AguiEvent>): Drawn<AguiEvent> {
  const own = new AbortController();
  const theirs = args[SIGNAL] === undefined ? undefined : relayedSignal(args[SIGNAL] as AbortSignal);
  const given = [...args];
  given[SIGNAL] = own.signal;
  const events = draw(open(...given));
  const over = (): void => {
    theirs?.stop();
  };
  onAbort(theirs?.signal, () => {
    own.abort(theirs?.signal.reason);
    events.fail(theirs?.signal.reason);
  });
  return {
    ...events,
    next: () =>
      events.next().then(
        (step) => {
          if (step.done) over();
          return step;
        },
        (error: unknown) => {
          over();
          throw error;
        },
      ),
    return: () => {
      over();
      own.abort();
      return events.return();
    },
  };
}
