// A Redis for a demo: on a free port of this machine, with nothing on disk.
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const START_MS = 5000;

export interface DemoRedis {
  readonly port: number;
  stop(): void;
}

const named = process.env['REDIS_SERVER_PATH'] || undefined;
const PROGRAMS = named === undefined ? ['redis-server', 'valkey-server'] : [named];

/** Why the demo has no Redis, and the repair. */
export const NO_REDIS =
  named === undefined
    ? 'no redis-server and no valkey-server on the PATH starts. Install one of them, or set REDIS_SERVER_PATH to its file'
    : `REDIS_SERVER_PATH is set to ${named}, which does not start as a Redis`;

/** Resolves to undefined when no program starts. */
export async function startRedis(): Promise<DemoRedis | undefined> {
  for (const program of PROGRAMS) {
    const redis = await start(program);
    if (redis) return redis;
  }
  return undefined;
}

async function start(program: string): Promise<DemoRedis | undefined> {
  const port = await freePort();
  const settings = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction'];
  const server = spawn(program, settings, { stdio: 'ignore' });
  const over = new Promise<undefined>((ended) => {
    server.once('error', () => {
      ended(undefined);
    });
    server.once('exit', () => {
      ended(undefined);
    });
  });
  const stop = (): void => {
    server.kill();
  };
  process.once('exit', stop);
  const started = await Promise.race([over, answering(port)]);
  if (started) return { port, stop };
  stop();
  return undefined;
}

/** Resolves when it answers; undefined after some seconds without an answer. */
async function answering(port: number): Promise<true | undefined> {
  for (const until = Date.now() + START_MS; Date.now() < until; ) {
    if (await answers(port)) return true;
    await sleep(20);
  }
  return undefined;
}

async function answers(port: number): Promise<boolean> {
  const redis = new Redis({ host: '127.0.0.1', port, lazyConnect: true, retryStrategy: null, maxRetriesPerRequest: 0 });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    await redis.ping();
    return true;
  } catch {
    return false;
  } finally {
    redis.disconnect();
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        if (address !== null && typeof address === 'object') resolve(address.port);
        else reject(new Error('no free port'));
      });
    });
  });
}
