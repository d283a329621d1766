import type { SchedulerLike } from 'rxjs';
import { asyncScheduler } from 'rxjs';
import { Alarm } from '../../operators/build.js';
import { tooLongError } from './provider-error.js';

/** How much of a body is read at most. */
export interface TextBounds {
  readonly maxBytes: number;
  readonly maxMs?: number;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike | undefined;
}

/** What was read of a body. */
export interface BoundedText {
  readonly text: string;
  /** False when there is more, or it broke off. */
  readonly isWhole: boolean;
  /** What it broke off with. */
  readonly error?: unknown;
}

/** Of a refusal: what says why it was one is at its start, and soon there. */
export const REFUSAL_BOUNDS = { maxBytes: 262_144, maxMs: 2000 } as const;

/** The text of a body up to its bounds; the rest of the body is cancelled, so that the server stops sending. */
export async function boundedText(response: Response, { maxBytes, maxMs = Infinity, scheduler }: TextBounds): Promise<BoundedText> {
  // Not every platform has bodies that are web streams.
  if (typeof response.body?.getReader !== 'function') return { text: await response.text(), isWhole: true };
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let isCut = false;
  const cut = (): void => {
    isCut = true;
    reader.cancel().catch(() => undefined);
  };
  const alarm = new Alarm(scheduler ?? asyncScheduler, cut);
  alarm.set(alarm.now() + maxMs);
  let text = '';
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { text: text + decoder.decode(), isWhole: !isCut };
      bytes += value.length;
      text += decoder.decode(bytes > maxBytes ? value.subarray(0, value.length - (bytes - maxBytes)) : value, { stream: true });
      if (bytes > maxBytes) cut();
    }
  } catch (error) {
    return { text, isWhole: false, error };
  } finally {
    alarm.clear();
  }
}

/** Of an answer: thousands of long vectors, written as numbers. */
const MAX_ANSWER_BYTES = 134_217_728;

/** What a body says that is JSON, undefined when it is none. Its time is that of the attempt. @throws what it broke off with; ProviderError when it is too long */
export async function boundedJson(response: Response): Promise<unknown> {
  const { text, isWhole, error } = await boundedText(response, { maxBytes: MAX_ANSWER_BYTES });
  // eslint-disable-next-line @typescript-eslint/only-throw-error -- as the platform threw it
  if (error !== undefined) throw error;
  if (!isWhole) throw tooLongError(`the answer is longer than ${String(MAX_ANSWER_BYTES)} bytes`);
  return jsonOf(text);
}

/** What a text says that is JSON; undefined when it is none: the error would quote it, and it may be the page of a proxy. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
