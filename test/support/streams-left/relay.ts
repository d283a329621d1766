import type { ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server of a user: it sends on what it gets from a model. */
export interface Relay {
  /** Where the next answer is, once. */
  serve(handle: (response: ServerResponse) => Promise<void>): string;
  stop(): Promise<void>;
}

export async function startRelay(): Promise<Relay> {
  const handlers = new Map<string, (response: ServerResponse) => Promise<void>>();
  let count = 0;
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    const handle = handlers.get(path);
    handlers.delete(path);
    handle?.(response).catch(() => response.destroy());
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    serve: (handle) => {
      const path = `/${String(count++)}`;
      handlers.set(path, handle);
      return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}${path}`;
    },
    stop: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
