import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { StreamServer } from '../../fakes/stream-server.js';
import { startStreamServer } from '../../fakes/stream-server.js';
import { CLIENTS } from './clients.js';
import { leaveStreams, PERMITS } from './run.js';

/** Real clients leave real streams in ten ways; `count` for each client. */
export function streamsLeft(count: number, timeout: number): void {
  describe(`${String(count)} streams, each left in one of ten ways`, () => {
    let server: StreamServer;

    beforeEach(async () => {
      server = await startStreamServer();
    });

    afterEach(async () => {
      await server.stop();
    });

    it.each(Object.entries(CLIENTS))(
      'give all permits back within a second, with no more in flight than permits: %s',
      { timeout },
      async (name, ask) => {
        const left = await leaveStreams(server, name, ask, count);
        if (process.env['STREAMS_LEFT_REPORT'] !== undefined) console.log(name, JSON.stringify(left));
        expect(left.lost).toEqual([]);
        expect(left.executing).toBe(0);
        expect(left.maxInFlight).toBeLessThanOrEqual(PERMITS);
        // Some are aborted before they begin, and the AI SDK requests nothing that is not read.
        expect(left.begun).toBeGreaterThan(count * 0.4);
        for (const [way, ms] of Object.entries(left.slowestMs)) expect(ms, way).toBeLessThanOrEqual(1000 + left.stalledMs);
      },
    );
  });
}
