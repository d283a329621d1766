import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../../../marbles/random.js';
import { childOf, createLimiter } from '../../../operators/index.js';
import type { StreamServer } from '../../fakes/stream-server.js';
import { question } from '../../fakes/stream-server.js';
import { collectNow } from '../garbage.js';
import type { Ask } from './clients.js';
import { startRelay } from './relay.js';
import type { Way } from './ways.js';
import { leaveBy, WAYS } from './ways.js';

export const PERMITS = 3;
const AT_A_TIME = 8;

export interface Left {
  readonly streams: number;
  readonly begun: number;
  readonly seconds: number;
  /** As the server saw it. */
  readonly maxInFlight: number;
  /** From the server's end of a stream to its permit; of a dropped one from the collection that found it. */
  readonly slowestMs: Readonly<Record<Way, number>>;
  /** Permits that did not come back within ten seconds. */
  readonly lost: readonly string[];
  readonly executing: number;
  /** The longest that this process had no turn: everything may be late by that. */
  readonly stalledMs: number;
}

/** Leaves so many streams of a client, each in one of the ways, several at a time through fewer permits. */
export async function leaveStreams(server: StreamServer, name: string, ask: Ask, count: number): Promise<Left> {
  const random = seededRandom(name.length + count);
  const draw = (below: number): number => Math.floor(random() * below);
  const limiter = createLimiter({ concurrency: PERMITS });
  const relay = await startRelay();
  const slowestMs = Object.fromEntries(WAYS.map((way) => [way, 0])) as Record<Way, number>;
  const lost: string[] = [];
  const kept: unknown[] = [];
  const returns: Promise<void>[] = [];
  const startedAt = Date.now();
  server.clear();
  const delays = monitorEventLoopDelay({ resolution: 10 });
  delays.enable();
  let dropped = 0;
  let collectedAt = 0;
  const collecting = setInterval(() => {
    if (dropped === 0) return;
    collectNow();
    collectedAt = Date.now();
  }, 100);

  const ways = Array.from({ length: count }, (_, i) => WAYS[i % WAYS.length] as Way);
  for (let i = ways.length - 1; i > 0; i--) {
    const j = draw(i + 1);
    [ways[i], ways[j]] = [ways[j] as Way, ways[i] as Way];
  }

  const one = async (way: Way, index: number): Promise<void> => {
    const id = `${name} ${String(index)} ${way}`;
    // A limiter for each, so that it can be told whose permit came back when.
    const own = childOf(limiter, { concurrency: 1 });
    let releasedAt: number | undefined;
    let foundAt = 0;
    own.onRelease(() => {
      releasedAt = Date.now();
      foundAt = collectedAt;
    });
    const say = (plan: object): string => question({ id, ...plan } as never);
    const endsRequests = !name.startsWith('AI SDK');
    const isCollected = name !== 'LangChain';
    const keep = (thing: unknown): void => void kept.push(thing);
    await leaveBy(way, { ask, question: { limiter: own, url: server.url }, say, draw, endsRequests, isCollected, relay, keep });
    const leftAt = Date.now();
    if (way === 'dropped') dropped++;
    returns.push(
      (async () => {
        while (own.executing > 0 || (releasedAt !== undefined && server.has(id) && !server.ends.has(id))) {
          if (Date.now() - Math.max(leftAt, server.ends.get(id) ?? leftAt) > 10_000) {
            lost.push(id);
            break;
          }
          await sleep(5);
        }
        if (way === 'dropped') dropped--;
        const from = way === 'dropped' && isCollected ? foundAt : (server.ends.get(id) ?? leftAt);
        if (releasedAt !== undefined) slowestMs[way] = Math.max(slowestMs[way], releasedAt - from);
        own.close();
      })(),
    );
  };

  let next = 0;
  await Promise.all(
    Array.from({ length: AT_A_TIME }, async () => {
      while (next < count) {
        const index = next++;
        await one(ways[index] as Way, index);
      }
    }),
  );
  await Promise.all(returns);
  clearInterval(collecting);
  delays.disable();
  await relay.stop();
  const { maxInFlight, begun } = server;
  const seconds = Math.round((Date.now() - startedAt) / 1000);
  return { streams: count, begun, seconds, maxInFlight, slowestMs, lost, executing: limiter.executing, stalledMs: delays.max / 1e6 };
}
