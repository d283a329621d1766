import { rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import { Redis } from 'ioredis';
import type { CreditStore, RateRule } from '../../../operators/index.js';
import { createLimiter, lanes, shared, slidingWindow, tokenBucket } from '../../../operators/index.js';
import { localStore } from '../../../src/shared/local-store.js';
import { redisStore } from '../../../src/shared/redis-store.js';
import type { Arrival, FromChild, LimiterPlan, RatePlan, StorePlan, ToChild } from './plans.js';
import { machineTime } from './plans.js';

/** A process of a test: `limiter` with its plan, or `provider` with its address. */
const [role, given] = process.argv.slice(2) as [string, string];
if (role === 'provider') provide(given);
else limit(JSON.parse(given) as LimiterPlan);

/** How long a call takes whose cost is settled. */
const CALL_MS = 100;

function say(message: FromChild): void {
  if (process.connected) process.send?.(message);
}

function hear(heard: (message: ToChild) => void): void {
  process.on('message', heard);
}

// ---- a limiter ---------------------------------------------------------------------------------------------------------

interface OpenStore {
  readonly store: CreditStore;
  close(): void;
}

function storeOf(plan: StorePlan): OpenStore {
  const { name } = plan;
  if (plan.kind === 'local') return { store: localStore({ name, folder: plan.folder }), close: () => undefined };
  const redis = new Redis({ path: plan.path, retryStrategy: () => 50 });
  redis.on('error', () => undefined);
  return { store: redisStore(redis, { name }), close: () => void redis.quit() };
}

function rateOf({ kind, unit, amount, windowMs, burst }: RatePlan): RateRule {
  return kind === 'window' ? slidingWindow({ unit, amount, windowMs }) : tokenBucket({ unit, amount, windowMs, ...(burst && { burst }) });
}

function limit(plan: LimiterPlan): void {
  const { guardMs = 200, leastShare = 0.01, lanes: names = [], reserve } = plan;
  const { store, close } = storeOf(plan.store);
  const limiter = createLimiter({
    headroom: 1,
    rates: shared(store, plan.rates.map(rateOf), { guardMs, leastShare }),
    ...(names.length > 0 && { queue: lanes(names.map((name, i) => ({ name, ...(i === 0 && reserve !== undefined && { reserve }) }))) }),
    onEvent: ({ type: event }) => {
      say({ type: 'event', event, at: machineTime() });
    },
  });
  const provider = plan.provider === undefined ? undefined : connect(plan.provider);
  let asked = 0;
  let done = 0;
  const next = (): void => {
    if (asked === plan.jobs) return;
    asked++;
    const askedAt = machineTime();
    const cost = costOf(plan);
    limiter.acquire({ cost, ...(plan.lane !== undefined && { lane: plan.lane }) }).subscribe((lease) => {
      const sentAt = machineTime();
      const spent = spentOf(plan, cost);
      tell(provider, { at: sentAt, sentAt, waitedMs: sentAt - askedAt, pid: process.pid, lane: plan.lane, cost: spent });
      if (spent === cost) lease.release();
      else
        setTimeout(() => {
          lease.settle({ units: spent });
          lease.release();
        }, CALL_MS);
      if (++done === plan.jobs) {
        limiter.close();
        close();
        provider?.end();
        say({ type: 'done' });
        process.disconnect();
      } else if (plan.everyMs === undefined) next();
      else setTimeout(next, plan.everyMs);
    });
  };
  hear((message) => {
    if (message.type === 'start') for (let i = 0; i < plan.waiting; i++) next();
    else if (message.type === 'block') for (const until = machineTime() + message.ms; machineTime() < until; );
  });
  say({ type: 'ready' });
}

function costOf({ cost }: LimiterPlan): Record<string, number> {
  return Object.fromEntries(
    Object.entries(cost).map(([unit, amount]) => {
      if (typeof amount === 'number') return [unit, amount];
      const [least, most] = amount;
      return [unit, Math.floor(least + Math.random() * (most - least + 1))];
    }),
  );
}

/** What a call has really cost. */
function spentOf({ settlesFrom }: LimiterPlan, cost: Record<string, number>): Record<string, number> {
  if (settlesFrom === undefined) return cost;
  const part = settlesFrom + Math.random() * (1 - settlesFrom);
  return Object.fromEntries(Object.entries(cost).map(([unit, amount]) => [unit, unit === 'requests' ? amount : Math.round(amount * part)]));
}

function tell(provider: Socket | undefined, arrival: Arrival): void {
  provider?.write(`${JSON.stringify(arrival)}\n`);
}

// ---- a provider --------------------------------------------------------------------------------------------------------

function provide(address: string): void {
  const arrivals: Arrival[] = [];
  const server = createServer((socket) => {
    let rest = '';
    socket.setEncoding('utf8');
    socket.on('error', () => undefined);
    socket.on('data', (chunk: string) => {
      const at = machineTime();
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() as string;
      for (const line of lines) arrivals.push({ ...(JSON.parse(line) as Arrival), at });
    });
  });
  server.listen(address, () => {
    say({ type: 'listening', address });
  });
  hear(() => {
    say({ type: 'arrivals', arrivals });
  });
  process.on('disconnect', () => {
    rmSync(address, { force: true });
    process.exit();
  });
}
