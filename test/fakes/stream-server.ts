import { fork } from 'node:child_process';
import { resolve } from 'node:path';
import type { ServerMessage, StreamPlan } from './stream-plan.js';

/** A server of streams in a process of its own, and what it has told about them. */
export interface StreamServer {
  /** Without a version. */
  readonly url: string;
  /** The most requests at a time whose response or connection had not ended, as the server saw it. */
  readonly maxInFlight: number;
  /** As the server told it last. */
  readonly inFlight: number;
  readonly begun: number;
  /** Whether a stream has been asked for. */
  has(id: string): boolean;
  /** When the server saw the end of each stream, by the clock of the machine. */
  readonly ends: ReadonlyMap<string, number>;
  /** Forgets what was counted. What is under way is still. */
  clear(): void;
  stop(): Promise<void>;
}

/** The question that makes the server do this. */
export function question(plan: StreamPlan): string {
  return `PLAN${JSON.stringify(plan)}NALP`;
}

export async function startStreamServer(): Promise<StreamServer> {
  const child = fork(resolve(import.meta.dirname, 'stream-child.ts'), [], { execArgv: ['--import', 'tsx'] });
  const seen = new Set<string>();
  const told = { maxInFlight: 0, inFlight: 0, begun: 0, ends: new Map<string, number>() };
  const port = await new Promise<number>((listening, failed) => {
    child.once('error', failed);
    child.on('message', (message: ServerMessage) => {
      if (message.type === 'listening') {
        listening(message.port);
      } else if (message.type === 'begun') {
        told.begun++;
        seen.add(message.id);
        told.maxInFlight = Math.max(told.maxInFlight, message.inFlight);
      } else {
        told.inFlight = message.inFlight;
        told.ends.set(message.id, message.at);
      }
    });
  });
  return Object.assign(told, {
    url: `http://127.0.0.1:${String(port)}`,
    has: (id: string) => seen.has(id),
    clear: () => {
      Object.assign(told, { maxInFlight: told.inFlight, begun: 0 });
    },
    stop: async () => {
      const gone = new Promise((exited) => child.once('exit', exited));
      child.disconnect();
      await gone;
    },
  });
}
