import { chmodSync } from 'node:fs';
import type { Server, Socket } from 'node:net';
import { createServer } from 'node:net';
import type { SchedulerLike } from 'rxjs';
import { asyncScheduler } from 'rxjs';
import type { MemoryStore } from '../../../operators/index.js';
import { memoryStore } from '../../../operators/index.js';
import { OWN_FILE } from './folder.js';
import { addressOf, freshContact, VERSION } from './generations.js';
import { Lines } from './lines.js';
import type { LocalAnswer, LocalRequest } from './requests.js';
import { readId, readRequest } from './requests.js';
import type { LoggedState } from './state-log.js';
import { logLine, StateLog } from './state-log.js';

/** A client that has not identified itself after so long, or not ended a line, is cut off. */
const LINE_MS = 2000;
/** A client that has not read so much of its answers is cut off. */
const MOST_UNREAD_BYTES = 1_000_000;
const MOST_CLIENTS = 2000;

/** The time of a store. It continues where that of the server before it has ended, and does not go back. */
class StoreClock implements SchedulerLike {
  readonly schedule = asyncScheduler.schedule.bind(asyncScheduler);
  private time = 0;
  private behindMs = 0;

  /** The same until it is set again. */
  now(): number {
    return this.time;
  }

  /** To a time in the past, of the log. */
  setTo(time: number): void {
    this.time = time;
  }

  setToNow(): number {
    const read = Date.now();
    this.behindMs = Math.max(this.behindMs, this.time - read);
    return (this.time = read + this.behindMs);
  }
}

/**
 * The server of a store: a store in memory that other processes ask over a socket. It writes what it is asked into a log before it answers, so that the next
 * server continues where it ends. It keeps no process alive.
 */
export class LocalServer {
  private readonly clients = new Set<Socket>();
  private store!: MemoryStore;
  private log!: StateLog;
  private readonly clock = new StoreClock();
  private isClosed = false;

  private constructor(
    private readonly server: Server,
    private readonly key: string,
  ) {
    server.maxConnections = MOST_CLIENTS;
    server.on('connection', (client: Socket) => {
      this.serve(client);
    });
    // A client that could not be accepted tries again.
    server.on('error', () => undefined);
  }

  /** Begins to serve after the server with this number. Undefined when another process was faster. */
  static async start(folder: string, after: number): Promise<LocalServer | undefined> {
    const contact = freshContact();
    const net = createServer().unref();
    const server = new LocalServer(net, contact.key);
    // It listens before others can know of it, so that they never find a server that is not there yet.
    const path = addressOf(folder, contact);
    await listening(net, path);
    try {
      if (process.platform !== 'win32') chmodSync(path, OWN_FILE);
      const log = StateLog.claim(folder, after + 1, contact);
      if (log) {
        server.begin(log);
        return server;
      }
      net.close();
    } catch (error) {
      server.close();
      throw error;
    }
    return undefined;
  }

  /** Whether this server still serves the store. */
  get isCurrent(): boolean {
    return !this.isClosed && this.log.isCurrent;
  }

  /** Answers this process, while this server serves the store. */
  answer(request: LocalRequest): LocalAnswer {
    const time = this.clock.setToNow();
    const answer = perform(this.store, request);
    this.write(logLine(time, JSON.stringify(request)));
    return answer;
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.server.close();
    for (const client of this.clients) client.destroy();
    (this.log as StateLog | undefined)?.close();
  }

  private begin(log: StateLog): void {
    this.log = log;
    this.store = storeOf(log.before(), this.clock);
    this.clock.setToNow();
    log.save(this.store.save());
  }

  private write(lines: string): void {
    this.log.append(lines, () => this.store.save());
  }

  private serve(client: Socket): void {
    const lines = new Lines();
    let isKnown = false;
    let timer: NodeJS.Timeout | undefined;
    const expectLine = (isExpected: boolean): void => {
      if (!isExpected) {
        clearTimeout(timer);
        timer = undefined;
      } else timer ??= setTimeout(() => client.destroy(), LINE_MS).unref();
    };
    this.clients.add(client);
    client.unref();
    client.setEncoding('utf8');
    client.on('error', () => undefined);
    client.on('close', () => {
      expectLine(false);
      this.clients.delete(client);
    });
    client.on('data', (chunk: string) => {
      try {
        const read = lines.read(chunk);
        const [greeting] = read;
        if (isKnown) this.answerAll(client, read);
        else if (greeting !== undefined) {
          isKnown = true;
          greet(client, greeting, this.key);
          this.answerAll(client, read.slice(1));
        }
        expectLine(!isKnown || lines.isInside);
      } catch {
        client.destroy();
      }
    });
    expectLine(true);
  }

  /** Answers what a client asks, up to the first message that is none. @throws when the client is to be cut off. */
  private answerAll(client: Socket, requests: readonly string[]): void {
    if (requests.length === 0) return;
    if (!this.isCurrent) {
      this.close();
      return;
    }
    const time = this.clock.setToNow();
    let logged = '';
    let answers = '';
    try {
      for (const line of requests) {
        const message: unknown = JSON.parse(line);
        const id = readId(message);
        const answer = perform(this.store, readRequest(message));
        logged += logLine(time, line);
        answers += `${JSON.stringify({ id, answer })}\n`;
      }
    } finally {
      if (logged !== '') this.write(logged);
      if (answers !== '') client.write(answers);
    }
    if (client.writableLength > MOST_UNREAD_BYTES) throw new RangeError('the client does not read');
  }
}

function perform(store: MemoryStore, request: LocalRequest): LocalAnswer {
  if ('ask' in request) return store.ask(request.ask);
  if ('correct' in request) store.correct(request.correct);
  else store.hold(request.hold.scope, request.hold.ms);
  return undefined;
}

/** What earlier servers granted is known from their log. Without one, the store begins empty. */
function storeOf(before: LoggedState | undefined, clock: StoreClock): MemoryStore {
  if (before) {
    try {
      const { requests, saved } = before;
      clock.setTo(saved.at);
      const store = memoryStore({ scheduler: clock, restore: saved });
      for (const { request, time } of requests) {
        clock.setTo(time);
        perform(store, request);
      }
      return store;
    } catch {
      // A log of another version, or that something else has written into.
      clock.setTo(0);
    }
  }
  clock.setToNow();
  return memoryStore({ scheduler: clock, startsEmpty: true });
}

/** @throws when the client cannot read the folder, or has another version. */
function greet(client: Socket, line: string, key: string): void {
  const greeting = JSON.parse(line) as { readonly sluice?: unknown; readonly key?: unknown };
  if (greeting.key !== key) throw new TypeError('no client');
  // One of another version learns from it that it is.
  client.write(`${JSON.stringify({ sluice: VERSION })}\n`);
  if (greeting.sluice !== VERSION) throw new TypeError('another version');
}

function listening(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // Exclusive: workers of a cluster would share one with all others.
    server.listen({ path, exclusive: true }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}
