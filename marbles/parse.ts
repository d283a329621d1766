import { TestScheduler } from 'rxjs/testing';
import type { Mark } from './spec.js';

/** Marbles as marks, one ms a character, inside and outside of a virtual run. A letter without a value stands for itself. */
export function parseMarbles(marbles: string, values: Readonly<Record<string, unknown>> = {}, error?: unknown): Mark[] {
  const messages = atOneMsPerFrame(() => TestScheduler.parseMarbles(marbles, letterValues(marbles, values), error, false, true));
  return messages.map(({ frame, notification }) => {
    if (notification.kind === 'N') return { frame, kind: 'next', value: notification.value as unknown };
    if (notification.kind === 'E') return { frame, kind: 'error', error: notification.error as unknown };
    return { frame, kind: 'complete' };
  });
}

/** From when to when a subscription lasts, in ms; `to` is Infinity without a `!`, `from` is 0 when there is only a `!`. */
export function parseSubscription(marbles: string): { from: number; to: number } {
  const { subscribedFrame, unsubscribedFrame } = atOneMsPerFrame(() => TestScheduler.parseMarblesAsSubscriptions(marbles, true));
  return { from: marbles.includes('^') || unsubscribedFrame === Infinity ? subscribedFrame : 0, to: unsubscribedFrame };
}

/** What each character of the marbles stands for. */
export function letterValues(marbles: string, values: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return Object.fromEntries(Array.from(marbles, (letter) => [letter, Object.hasOwn(values, letter) ? values[letter] : letter]));
}

/** RxJS parses with a factor that is 1 inside `TestScheduler.run` and 10 outside, and offers no other way to say so. */
/* eslint-disable @typescript-eslint/no-deprecated */
function atOneMsPerFrame<R>(parse: () => R): R {
  const before = TestScheduler.frameTimeFactor;
  TestScheduler.frameTimeFactor = 1;
  try {
    return parse();
  } finally {
    TestScheduler.frameTimeFactor = before;
  }
}
