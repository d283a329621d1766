import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Refusal } from '../../test/fakes/failing-api.js';
import { median } from '../harness.js';
import type { ApiOptions, Open, Session } from './api.js';
import { CHUNKS } from './api.js';

/** What is measured of one SDK in one way of using it, each with a server and a client of its own. */
export interface Cell {
  readonly head: string;
  /** Whether it takes many seconds, nearly all of them spent waiting. */
  readonly isLong: (isAlone: boolean) => boolean;
  readonly measure: (open: Open) => Promise<string>;
}

/** Does not apply. */
const NONE = '–';
/** More attempts than any SDK makes. */
const ENDLESS = 40;
const FAULT: Refusal = { status: 500, message: 'It broke.', type: 'server_error' };
const QUOTA: Refusal = { status: 429, message: 'You exceeded your current quota.', code: 'insufficient_quota', type: 'insufficient_quota' };
/** As OpenAI gives it: exactly, and in whole seconds. */
const SOON: Refusal = {
  status: 429,
  message: 'Slow down.',
  code: 'rate_limit_exceeded',
  headers: { 'retry-after-ms': '150', 'retry-after': '1' },
};
const LATE: Refusal = { status: 429, message: 'Slow down.', code: 'rate_limit_exceeded', headers: { 'retry-after': '90' } };

const PAUSES = 20;
const CALLS = 12;
const STREAMS = 6;
const ROUNDS = 5;
/** An SDK that has done nothing for this long is waiting. */
const PATIENCE_MS = 5000;
/** A server that has heard nothing for so long will hear nothing. */
const DEAF_MS = 2000;
const POLL_MS = 1;
/** So long that all who want to come have come, on a busy machine as well. */
const HELD_MS = 2000;

/** Opens a session, and ends all that it still does. */
async function within(
  open: Open,
  options: ApiOptions,
  measure: (session: Session, signal: AbortSignal) => Promise<string>,
): Promise<string> {
  const session = await open(options);
  const end = new AbortController();
  setMaxListeners(0, end.signal);
  try {
    return await measure(session, end.signal);
  } finally {
    end.abort();
    await session.close();
  }
}

/** Whether it came true in time. */
async function until(isTrue: () => boolean, patienceMs: number): Promise<boolean> {
  const endMs = performance.now() + patienceMs;
  while (!isTrue() && performance.now() < endMs) await sleep(POLL_MS);
  return isTrue();
}

function over(call: Promise<unknown>): Promise<unknown> {
  return call.catch((error: unknown) => error);
}

const durationOf = (ms: number): string => (ms < 1000 ? `${String(Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`);

function attempts(failure: Refusal): Cell['measure'] {
  return (open) =>
    within(open, {}, async ({ isOfModel, api, call }, signal) => {
      if (failure === QUOTA && !isOfModel) return NONE;
      api.fail(...Array.from({ length: ENDLESS }, () => failure));
      await over(call('always', signal));
      return String(api.arrivals().length);
    });
}

/** Ms to the next attempt, or to the end of the call. Neither is there when it waits. */
interface After {
  readonly again?: number | undefined;
  readonly failed?: number | undefined;
}

/** What comes after one refusal. */
async function afterOne({ api, call }: Session, signal: AbortSignal, failure: Refusal): Promise<After> {
  const before = api.arrivals().length;
  api.fail(failure);
  let endMs: number | undefined;
  const ended = over(call('once', signal)).then(() => {
    endMs = performance.now();
  });
  await until(() => endMs !== undefined || api.arrivals().length > before + 1, PATIENCE_MS);
  const [first = NaN, second] = api.arrivals().slice(before);
  if (second === undefined) return { failed: endMs && endMs - first };
  await ended;
  return { again: second - first };
}

function refusedOnce(failure: Refusal): Cell['measure'] {
  return (open) =>
    within(open, {}, async (session, signal) => {
      const gaps: number[] = [];
      const ends: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const { again, failed } = await afterOne(session, signal, failure);
        if (again !== undefined) gaps.push(again);
        else if (failed !== undefined) ends.push(failed);
        else return 'waits';
      }
      if (ends.length === 0) return `again after ${durationOf(median(gaps))}`;
      return gaps.length === 0 ? `fails after ${durationOf(median(ends))}` : 'sometimes fails';
    });
}

const pauses: Cell['measure'] = (open) =>
  within(open, {}, async (session, signal) => {
    const seen: number[] = [];
    for (let i = 0; i < PAUSES; i++) {
      const { again } = await afterOne(session, signal, FAULT);
      if (again === undefined) return NONE;
      seen.push(again);
    }
    return `${String(Math.round(Math.min(...seen)))} to ${String(Math.round(Math.max(...seen)))}`;
  });

const callsInFlight: Cell['measure'] = (open) =>
  within(open, { latencyMs: HELD_MS }, async ({ api, call }, signal) => {
    await Promise.all(Array.from({ length: CALLS }, (_, i) => call(`call ${String(i)}`, signal)));
    return String(api.maxInFlight);
  });

const streamsInFlight: Cell['measure'] = (open) =>
  within(open, { chunkGapMs: HELD_MS / CHUNKS }, async ({ api, stream }, signal) => {
    if (stream === undefined) return NONE;
    await Promise.all(Array.from({ length: STREAMS }, (_, i) => stream(`these are some words of stream ${String(i)}`, signal)));
    return String(api.maxInFlight);
  });

const runningAborted: Cell['measure'] = (open) =>
  within(open, { latencyMs: 10_000 }, async ({ api, call }) => {
    const seen: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const user = new AbortController();
      const before = api.aborted;
      const left = over(call('running', user.signal));
      await until(() => api.inFlight === 1, PATIENCE_MS);
      const startMs = performance.now();
      user.abort();
      if (!(await until(() => api.aborted > before, DEAF_MS))) return 'not seen';
      seen.push(performance.now() - startMs);
      await left;
    }
    return `${String(Math.ceil(median(seen)))} ms`;
  });

const queuedAborted: Cell['measure'] = (open) =>
  within(open, { latencyMs: HELD_MS }, async ({ api, call }, signal) => {
    const user = new AbortController();
    const others = [call('first', signal), call('second', signal)];
    await until(() => api.inFlight === 2, HELD_MS / 4);
    const unwanted = over(call('unwanted', user.signal));
    await sleep(HELD_MS / 4);
    user.abort();
    await Promise.all([...others, unwanted]);
    // What was given up may still be sent when its turn comes.
    await sleep(HELD_MS / 4);
    return String(api.arrivals().length - 2);
  });

const always = (): boolean => true;
const never = (): boolean => false;

export const CELLS: readonly Cell[] = [
  { head: 'attempts, always 500', isLong: always, measure: attempts(FAULT) },
  { head: `ms to the second attempt, ${String(PAUSES)} calls`, isLong: (isAlone) => isAlone, measure: pauses },
  { head: '429, `retry-after-ms: 150`', isLong: never, measure: refusedOnce(SOON) },
  { head: '429, 90 s', isLong: always, measure: refusedOnce(LATE) },
  { head: 'attempts, `insufficient_quota`', isLong: always, measure: attempts(QUOTA) },
  { head: `in flight of ${String(CALLS)} calls`, isLong: always, measure: callsInFlight },
  { head: `of ${String(STREAMS)} streams`, isLong: always, measure: streamsInFlight },
  { head: 'aborted: server sees it after', isLong: never, measure: runningAborted },
  { head: 'aborted behind two others: requests', isLong: always, measure: queuedAborted },
];
