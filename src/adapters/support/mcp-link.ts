import type { Classify } from '../../../operators/index.js';
import { isFlowError } from '../../../operators/index.js';
import { neverArrived } from '../../pipelines/never-arrived.js';
import type { McpCall, McpProgress, McpResult, McpTool } from './mcp-types.js';
import { hasAsked } from './mcp-watch.js';

/** What every request to the client is made with, in its own words. */
export interface McpRequest {
  readonly signal: AbortSignal;
  readonly timeout: number;
  readonly resetTimeoutOnProgress: true;
  /** Without one, progress is not asked for, and resets nothing. */
  readonly onprogress: (progress: McpProgress) => void;
}

/** What the majors of the client do differently. */
export interface McpLink<R extends McpResult, T extends McpTool> {
  call(call: McpCall, request: McpRequest): Promise<R>;
  readonly client: object;
  /** The client's own error of a request that had no answer for so long. */
  silent(maxSilenceMs: number): Error;
  /** All pages. */
  list(request: McpRequest): Promise<readonly T[]>;
  /** Listens to the server; the returned function stops that. */
  onToolsChanged(listener: () => void): () => void;
}

/** What a client does with notifications that it has no handler for. */
interface Fallback<N> {
  (notification: N): Promise<void>;
  /** Set on a handler of ours that is no longer needed. */
  isOver?: boolean;
  /** The one that it stands in front of. */
  next?: Fallback<N> | undefined;
}

interface Notified<N> {
  fallbackNotificationHandler?: Fallback<N> | undefined;
}

const TOOLS_CHANGED = 'notifications/tools/list_changed';

/**
 * Listens to a client without taking anything from its owner: a handler of the owner for this notification goes first, and then nothing is
 * heard here; one for all others is called as before.
 */
export function listenForTools<N extends { readonly method: string }>(client: Notified<N>, listener: () => void): () => void {
  const handler: Fallback<N> = async (notification) => {
    if (notification.method === TOOLS_CHANGED) listener();
    await handler.next?.(notification);
  };
  handler.next = client.fallbackNotificationHandler;
  client.fallbackNotificationHandler = handler;
  return () => {
    handler.isOver = true;
    // One behind another's goes when that one does.
    client.fallbackNotificationHandler = withoutOver(client.fallbackNotificationHandler);
  };
}

/** The first of them that is not over; none behind it is either, as far as they are ours. */
function withoutOver<N>(first: Fallback<N> | undefined): Fallback<N> | undefined {
  let open = first;
  while (open?.isOver) open = open.next;
  for (let at = open; at; at = at.next) while (at.next?.isOver) at.next = at.next.next;
  return open;
}

/**
 * For calls that must not be made twice: a failure that leaves open whether the tool has run is sorted like a timeout. What the server refused
 * (`throttled`) or never got may be sent again.
 */
export function carefully(classify: Classify): Classify {
  return (error, context) => {
    const verdict = classify(error, context);
    const isOpen = verdict.class === 'transient' && !isFlowError(error) && !neverArrived(error);
    return isOpen ? { ...verdict, class: 'timeout' } : verdict;
  };
}

/** A call during which the server has asked the user is never made again: it would ask again. */
export function askingOnce(classify: Classify): Classify {
  return (error, context) => (hasAsked(error) ? { class: 'fatal' } : classify(error, context));
}
