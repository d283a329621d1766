import type { ChildProcess } from 'node:child_process';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisOptions } from 'ioredis';
import { Redis } from 'ioredis';

const script = resolve(import.meta.dirname, '../../../.ci/redis.mjs');
const START_MS = 20_000;

let found: string | undefined;

/** Those that are not stopped. A program that fails does not leave them behind. */
const running = new Set<RedisServer>();

function killAll(): void {
  for (const server of running) server.killNow();
}

/** The server program, which is installed where it is missing. @throws Error with a sentence that says how to install it */
export function redisProgram(): string {
  found ??= execFileSync(process.execPath, [script], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();
  return found;
}

/** A Redis of one test, on a socket in a folder of its own. */
export class RedisServer {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-redis-'));
  readonly path = join(this.folder, 'r.sock');
  private server: ChildProcess | undefined;
  private readonly connections: Redis[] = [];

  private constructor(private readonly settings: readonly string[]) {}

  /** @param settings - as on the command line, for example `['--appendonly', 'yes']` */
  static async start(settings: readonly string[] = []): Promise<RedisServer> {
    const server = new RedisServer(settings);
    if (running.size === 0) process.on('exit', killAll);
    running.add(server);
    try {
      await server.start();
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  /** Starts it, again with what its folder holds. */
  async start(): Promise<void> {
    rmSync(this.path, { force: true });
    const fixed = ['--port', '0', '--unixsocket', this.path, '--dir', this.folder, '--save', '', '--daemonize', 'no'];
    const server = spawn(redisProgram(), [...fixed, ...this.settings], { stdio: ['ignore', 'ignore', 'inherit'] });
    this.server = server;
    for (const until = Date.now() + START_MS; ; ) {
      if (existsSync(this.path) && (await this.isReady())) return;
      if (server.exitCode !== null || Date.now() > until) throw new Error(`redis-server does not start (exit ${String(server.exitCode)})`);
      await sleep(10);
    }
  }

  async kill(): Promise<void> {
    const { server } = this;
    this.server = undefined;
    if (!server || server.exitCode !== null || server.signalCode !== null) return;
    const ended = new Promise((settle) => server.once('exit', settle));
    server.kill('SIGKILL');
    await ended;
  }

  /** Without waiting: the process ends. */
  killNow(): void {
    this.server?.kill('SIGKILL');
    this.forget();
  }

  private forget(): void {
    rmSync(this.folder, { recursive: true, force: true });
    running.delete(this);
    if (running.size === 0) process.off('exit', killAll);
  }

  /** A connection, closed with the server. */
  connect(options: RedisOptions = {}): Redis {
    const redis = new Redis({ path: this.path, retryStrategy: () => 50, ...options });
    redis.on('error', () => undefined);
    this.connections.push(redis);
    return redis;
  }

  async stop(): Promise<void> {
    for (const redis of this.connections) redis.disconnect();
    await this.kill();
    this.forget();
  }

  /** Whether it has read what it had written before. */
  private isReady(): Promise<boolean> {
    return new Promise((settle) => {
      const socket = connect(this.path, () => socket.write('PING\r\n'));
      socket.setEncoding('utf8');
      socket.on('error', () => {
        settle(false);
      });
      socket.on('data', (answer: string) => {
        settle(answer.startsWith('+PONG') || answer.startsWith('-NOAUTH'));
        socket.destroy();
      });
    });
  }
}
