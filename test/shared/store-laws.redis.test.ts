import { beforeAll, describe, it } from 'vitest';
import { creditStoreLaws } from '../../marbles/index.js';
import { storeLaws } from '../../marbles/store-laws/rules.js';
import { redisStore } from '../../src/shared/redis-store.js';
import { sized } from '../support/deep.js';
import { RedisServer } from './support/redis-server.js';

/** Long enough that the steps of a schedule fit into one of them on a busy machine. */
const WINDOW_MS = 400;

const TITLES = storeLaws.filter(({ appliesTo }) => appliesTo === undefined).map(({ title }) => title);

describe('the store in Redis, in real time', () => {
  let server: RedisServer;
  let stores = 0;
  beforeAll(async () => {
    server = await RedisServer.start();
    return () => server.stop();
  });

  // They mostly wait.
  it.concurrent.for(TITLES)('%s', async (title, { expect }) => {
    const redis = server.connect();
    const make = () => ({ store: redisStore(redis, { name: `tested ${String(++stores)}` }) });
    const options = { only: [title], schedules: sized(1, 5), windowMs: WINDOW_MS };
    await expect(creditStoreLaws(make, options)).resolves.toEqual([title]);
  });
});
