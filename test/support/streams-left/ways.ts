import type { IncomingMessage } from 'node:http';
import { get } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { StreamPlan } from '../../fakes/stream-plan.js';
import type { Answer, Ask, Question } from './clients.js';
import type { Relay } from './relay.js';

/** One stream to be left. */
export interface Leaving {
  readonly ask: Ask;
  readonly question: Omit<Question, 'text'>;
  /** What makes the server do this. */
  readonly say: (plan: Omit<StreamPlan, 'id'>) => string;
  /** A whole number below that, from the seed. */
  readonly draw: (below: number) => number;
  /** Whether the client's own way of leaving ends the request; the AI SDK's do not. */
  readonly endsRequests: boolean;
  /** Whether a stream that is dropped can be collected; LangChain holds its own, over the global `fetch` too. */
  readonly isCollected: boolean;
  readonly relay: Relay;
  /** Keeps what is not to be collected. */
  readonly keep: (thing: unknown) => void;
}

export const WAYS = ['read', 'break', 'cancel', 'abort', 'thrown', 'gone', 'dropped', 'mark', 'error', 'timeout'] as const;
export type Way = (typeof WAYS)[number];

const FINE = { then: 'end', tailMs: 0 } as const;

/** A stream that is left in the middle: one that would never end, if the client closes it. */
function going({ say, draw, endsRequests }: Leaving): string {
  const gapMs = 1 + draw(4);
  return say(endsRequests && draw(2) === 0 ? { chunks: 0, gapMs, then: 'more', tailMs: 0 } : { chunks: 12 + draw(10), gapMs, ...FINE });
}

/** Reads up to `most` values; `each` may leave. */
async function some(answer: Answer, most: number): Promise<void> {
  let seen = 0;
  for await (const value of answer.values()) if (value !== undefined && ++seen > most) break;
}

/** Reads the way people do who are ready for errors. */
async function readAll(answer: Answer): Promise<void> {
  try {
    await some(answer, Infinity);
  } catch {
    // What it fails with is not the question here.
  }
}

const leave: Readonly<Record<Way, (leaving: Leaving) => Promise<void>>> = {
  read: async ({ ask, question, say, draw }) => {
    const text = say({ chunks: draw(8), gapMs: draw(3), then: 'end', tailMs: draw(3) === 0 ? 20 : 0 });
    await some(await ask({ ...question, text }), Infinity);
  },

  break: async (leaving) => {
    await some(await leaving.ask({ ...leaving.question, text: going(leaving) }), leaving.draw(4));
  },

  cancel: async (leaving) => {
    const answer = await leaving.ask({ ...leaving.question, text: going(leaving) });
    const reader = answer.web().getReader();
    // Cancelled before that, the streams of OpenAI and Anthropic have not begun, and end nothing.
    await reader.read();
    await reader.cancel();
  },

  abort: async ({ ask, question, say, draw }) => {
    const controller = new AbortController();
    const text = say({ chunks: 0, gapMs: 1 + draw(4), then: 'more', tailMs: 0 });
    const soon = setTimeout(() => {
      controller.abort();
    }, draw(60));
    try {
      await readAll(await ask({ ...question, text, signal: controller.signal }));
    } catch {
      // Before its answer has begun, an abort is the call's own.
    }
    clearTimeout(soon);
  },

  thrown: async (leaving) => {
    const answer = await leaving.ask({ ...leaving.question, text: going(leaving) });
    const enough = new Error('enough');
    try {
      for await (const value of answer.values()) if (value !== undefined && leaving.draw(3) === 0) throw enough;
    } catch (error) {
      if (error !== enough) throw error;
    }
  },

  gone: async (leaving) => {
    const { ask, question, relay, draw, say } = leaving;
    // `pipe` tells its source nothing of a client that is gone, nor do the AI SDK's own ways.
    const isPiped = draw(2) === 0;
    const text = isPiped ? say({ chunks: 12 + draw(10), gapMs: 1 + draw(4), ...FINE }) : going(leaving);
    const url = relay.serve(async (response) => {
      const answer = await ask({ ...question, text });
      if (answer.send) answer.send(response);
      else if (isPiped)
        Readable.fromWeb(answer.web() as never)
          .map(String)
          .pipe(response);
      else await pipeline(Readable.fromWeb(answer.web() as never).map(String), response);
    });
    await new Promise<void>((gone) => {
      get(url, (incoming: IncomingMessage) => {
        incoming.once('data', () => {
          incoming.destroy();
        });
        incoming.once('close', gone);
      }).once('error', () => {
        gone();
      });
    });
  },

  dropped: async ({ ask, question, say, draw, isCollected }) => {
    const gapMs = 2 + draw(4);
    const plan = isCollected ? ({ chunks: 0, gapMs, then: 'more', tailMs: 0 } as const) : { chunks: 12, gapMs, ...FINE };
    const answer = await ask({ ...question, text: say(plan) });
    if (draw(2) === 0) await answer.values()[Symbol.asyncIterator]().next();
  },

  mark: async ({ ask, question, say, draw, keep }) => {
    const tailMs = draw(3) === 0 ? 20 : 0;
    const answer = await ask({ ...question, text: say({ chunks: draw(8), gapMs: draw(3), then: 'end', tailMs }) });
    const values = answer.values()[Symbol.asyncIterator]();
    keep(values);
    for (let step = await values.next(); step.done !== true && !answer.isLast(step.value); ) step = await values.next();
  },

  error: async ({ ask, question, say, draw }) => {
    const then = draw(2) === 0 ? 'error' : 'cut';
    const text = say({ chunks: draw(6), gapMs: draw(3), then, tailMs: 0 });
    try {
      await readAll(await ask({ ...question, text }));
    } catch {
      // Cut before its answer had begun.
    }
  },

  timeout: async ({ ask, question, say, draw }) => {
    const text = say({ chunks: draw(4), gapMs: draw(3), then: 'silence', tailMs: 0 });
    const ms = 40 + draw(40);
    try {
      await readAll(await ask({ ...question, text, ...(draw(2) === 0 ? { signal: AbortSignal.timeout(ms) } : { timeoutMs: ms }) }));
    } catch {
      // The time was over before its answer had begun.
    }
  },
};

export function leaveBy(way: Way, leaving: Leaving): Promise<void> {
  return leave[way](leaving);
}
