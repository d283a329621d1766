import PQueue from 'p-queue';
import { createLimiter } from '../operators/create-limiter.js';
import { lanes } from '../operators/lanes.js';
import { createModelCaller } from '../src/pipelines/create-model-caller.js';
import { priorityPool } from './by-hand.js';
import { assertCount, numbers, table } from './harness.js';

const ROUNDS = 3;
const SERVICE_MS = 5;
const CONCURRENCY = 4;
const FLOOD = 2000;
const EVERY_MS = 20;
const LANES = [{ name: 'P0' }, { name: 'P2' }];

const serve = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, SERVICE_MS));

/** How to make an urgent call and one of the flood; a new queue for each run. */
interface Contestant {
  readonly urgent: () => Promise<unknown>;
  readonly flood: () => Promise<unknown>;
}

const contestants: Readonly<Record<string, () => Contestant>> = {
  'by hand, next free slot': () => {
    const run = priorityPool(CONCURRENCY, 2, serve);
    return { urgent: () => run(undefined, 0), flood: () => run(undefined, 1) };
  },
  'sluice runAsync': () => {
    const limiter = createLimiter({ concurrency: CONCURRENCY, queue: lanes(LANES) });
    return { urgent: () => limiter.runAsync(serve, { lane: 'P0' }), flood: () => limiter.runAsync(serve, { lane: 'P2' }) };
  },
  'sluice createModelCaller': () => {
    const models = createModelCaller({ call: serve, concurrency: CONCURRENCY, maxQueued: Infinity });
    return { urgent: () => models.callAsync(undefined, { lane: 'P0' }), flood: () => models.callAsync(undefined, { lane: 'P2' }) };
  },
  'p-queue': () => {
    const queue = new PQueue({ concurrency: CONCURRENCY });
    return { urgent: () => queue.add(serve, { priority: 1 }), flood: () => queue.add(serve, { priority: 0 }) };
  },
};

interface Run {
  /** What the urgent calls took, with their service. */
  readonly urgentMs: readonly number[];
  readonly floodMs: number;
}

/** The whole flood is queued, and while it lasts an urgent call comes every 20 ms. */
async function once({ urgent, flood }: Contestant): Promise<Run> {
  const startedAt = performance.now();
  const all = Promise.all(numbers(FLOOD).map(flood));
  const urgentMs: number[] = [];
  const asked: Promise<void>[] = [];
  const ask = async (): Promise<void> => {
    const askedAt = performance.now();
    await urgent();
    urgentMs.push(performance.now() - askedAt);
  };
  const timer = setInterval(() => {
    asked.push(ask());
  }, EVERY_MS);
  assertCount('flood', (await all).length, FLOOD);
  const floodMs = performance.now() - startedAt;
  clearInterval(timer);
  await Promise.all(asked);
  return { urgentMs, floodMs };
}

function quantile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.ceil(share * values.length) - 1] ?? 0;
}

export async function priorityTable(): Promise<string> {
  const runs = new Map<string, Run[]>(Object.keys(contestants).map((name) => [name, []]));
  // Taken in turns, so that a slow moment of the machine is everybody's; the first round warms up.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, make] of Object.entries(contestants)) {
      const run = await once(make());
      if (round > 0) runs.get(name)?.push(run);
    }
  }
  const results = [...runs].map(([name, each]) => {
    const urgentMs = each.flatMap((run) => run.urgentMs);
    const floodMs = quantile(
      each.map((run) => run.floodMs),
      0.5,
    );
    return { name, p50: quantile(urgentMs, 0.5), p99: quantile(urgentMs, 0.99), floodMs };
  });
  const [hand] = results;
  const rows = results.map(({ name, p50, p99, floodMs }) => [
    name,
    p50.toFixed(1),
    (p50 / hand!.p50).toFixed(2),
    p99.toFixed(1),
    (p99 / hand!.p99).toFixed(2),
    (floodMs / 1000).toFixed(2),
    (floodMs / hand!.floodMs).toFixed(2),
  ]);
  const heads = ['queue', 'P0 p50, ms', 'ratio', 'P0 p99, ms', 'ratio', 'all P2, s', 'ratio'];
  return `${FLOOD} P2 queued, a P0 every ${EVERY_MS} ms, ${CONCURRENCY} slots, service ${SERVICE_MS} ms; wall clock, ${ROUNDS} rounds\n\n${table(heads, rows)}`;
}
