import Bottleneck from 'bottleneck';
import PQueue from 'p-queue';
import { createLimiter } from '../operators/create-limiter.js';
import { lanes } from '../operators/lanes.js';
import { tokenBucket } from '../operators/rates.js';
import { createModelCaller } from '../src/pipelines/create-model-caller.js';
import { priorityPool } from './by-hand.js';
import { assertCount, numbers, table } from './harness.js';

const ROUNDS = 3;
const SERVICE_MS = 5;
const CONCURRENCY = 4;
const FLOOD = 2000;
const EVERY_MS = 20;
const LANES = [{ name: 'user' }, { name: 'background' }];

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
    return { urgent: () => limiter.runAsync(serve, { lane: 'user' }), flood: () => limiter.runAsync(serve, { lane: 'background' }) };
  },
  'sluice createModelCaller': () => {
    const models = createModelCaller({ call: serve, concurrency: CONCURRENCY, maxQueued: Infinity });
    return {
      urgent: () => models.callAsync(undefined, { lane: 'user' }),
      flood: () => models.callAsync(undefined, { lane: 'background' }),
    };
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

/** The whole flood is queued, and while it lasts an urgent call comes now and then. */
async function once({ urgent, flood }: Contestant, load: Load): Promise<Run> {
  const startedAt = performance.now();
  const all = Promise.all(numbers(load.flood).map(flood));
  const urgentMs: number[] = [];
  const asked: Promise<void>[] = [];
  const ask = async (): Promise<void> => {
    const askedAt = performance.now();
    await urgent();
    urgentMs.push(performance.now() - askedAt);
  };
  const timer = setInterval(() => {
    asked.push(ask());
  }, load.everyMs);
  assertCount('flood', (await all).length, load.flood);
  const floodMs = performance.now() - startedAt;
  clearInterval(timer);
  await Promise.all(asked);
  return { urgentMs, floodMs };
}

function quantile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.ceil(share * values.length) - 1] ?? 0;
}

/** Requests a second that the rate lets through; slots are never short. */
const PER_SECOND = 100;
const RATED_FLOOD = 600;
/** Urgent calls, of which a second has fewer than 0.7 of a reserve of 0.05. */
const RATED_EVERY_MS = 310;
const BURST = 10;

const rated = (reserve: number) => (): Contestant => {
  const rate = tokenBucket({ unit: 'requests', amount: PER_SECOND, windowMs: 1000, burst: BURST });
  const limiter = createLimiter({ rates: [rate], headroom: 1, queue: lanes([{ name: 'user', reserve }, { name: 'background' }]) });
  return { urgent: () => limiter.runAsync(serve, { lane: 'user' }), flood: () => limiter.runAsync(serve, { lane: 'background' }) };
};

const ratedContestants: Readonly<Record<string, () => Contestant>> = {
  'sluice, reserve 0.05': rated(0.05),
  'sluice, no reserve': rated(0),
  'p-queue, intervalCap': () => {
    const queue = new PQueue({ intervalCap: PER_SECOND, interval: 1000 });
    return { urgent: () => queue.add(serve, { priority: 1 }), flood: () => queue.add(serve, { priority: 0 }) };
  },
  'bottleneck, reservoir': () => {
    const queue = new Bottleneck({ reservoir: PER_SECOND, reservoirRefreshAmount: PER_SECOND, reservoirRefreshInterval: 1000 });
    return { urgent: () => queue.schedule({ priority: 1 }, serve), flood: () => queue.schedule({ priority: 9 }, serve) };
  },
};

interface Load {
  readonly flood: number;
  readonly everyMs: number;
  readonly rounds: number;
}

interface Result {
  readonly name: string;
  readonly p50: number;
  readonly p99: number;
  readonly floodMs: number;
}

/** Taken in turns, so that a slow moment of the machine is shared by all queues; the first round warms up. */
async function measured(all: Readonly<Record<string, () => Contestant>>, load: Load): Promise<readonly Result[]> {
  const runs = new Map<string, Run[]>(Object.keys(all).map((name) => [name, []]));
  for (let round = 0; round <= load.rounds; round++) {
    for (const [name, make] of Object.entries(all)) {
      const run = await once(make(), load);
      if (round > 0) runs.get(name)?.push(run);
    }
  }
  return [...runs].map(([name, each]) => {
    const urgentMs = each.flatMap((run) => run.urgentMs);
    const floodMs = quantile(
      each.map((run) => run.floodMs),
      0.5,
    );
    return { name, p50: quantile(urgentMs, 0.5), p99: quantile(urgentMs, 0.99), floodMs };
  });
}

function tableOf(results: readonly Result[]): string {
  const [first] = results;
  const rows = results.map(({ name, p50, p99, floodMs }) => [
    name,
    p50.toFixed(1),
    (p50 / first!.p50).toFixed(2),
    p99.toFixed(1),
    (p99 / first!.p99).toFixed(2),
    (floodMs / 1000).toFixed(2),
    (floodMs / first!.floodMs).toFixed(2),
  ]);
  return table(['queue', '`user` p50, ms', 'ratio', '`user` p99, ms', 'ratio', 'all of `background`, s', 'ratio'], rows);
}

/** Where slots are the limit, and where a rate is. */
export async function priorityTable(): Promise<string> {
  const slots = await measured(contestants, { flood: FLOOD, everyMs: EVERY_MS, rounds: ROUNDS });
  const rates = await measured(ratedContestants, { flood: RATED_FLOOD, everyMs: RATED_EVERY_MS, rounds: ROUNDS });
  const service = `service ${SERVICE_MS} ms; wall clock, ${ROUNDS} rounds`;
  return [
    `${FLOOD} calls of background queued, one of user every ${EVERY_MS} ms, ${CONCURRENCY} slots, ${service}\n\n${tableOf(slots)}`,
    `${RATED_FLOOD} calls of background queued, one of user every ${RATED_EVERY_MS} ms, ${PER_SECOND} requests a second, ${service}\n\n${tableOf(rates)}`,
  ].join('\n\n');
}
