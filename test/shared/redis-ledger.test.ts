import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { creditScript } from '../../src/shared/redis/credit-script.js';
import { RedisClient } from '../../src/shared/redis/redis-client.js';
import { sized } from '../support/deep.js';
import type { Sequence } from './support/redis-sequence.js';
import { sayTo, sequence } from './support/redis-sequence.js';
import { RedisServer } from './support/redis-server.js';

/** How many sequences: `SLUICE_REDIS_SEQUENCES=100000`. */
const SEQUENCES = Number(process.env['SLUICE_REDIS_SEQUENCES'] ?? sized(800, 2500));

const CLOCK = 'test-clock';
const SCRIPTS = {
  lost: creditScript(`tonumber(call('GET', '${CLOCK}'))`),
  known: creditScript(`tonumber(call('GET', '${CLOCK}'))`, '-huge'),
};

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await RedisServer.start();
  redis = server.connect();
  // Messages that are sent at once arrive in their order only where none has to be sent again.
  for (const script of Object.values(SCRIPTS)) await redis.script('LOAD', script);
});
afterAll(() => server.stop());

let runs = 0;

/** What the script answers, all messages of a sequence in one go. */
async function answersOf({ isLost, said }: Sequence): Promise<unknown[]> {
  const script = SCRIPTS[isLost ? 'lost' : 'known'];
  const name = `run ${String(++runs)}`;
  const answers = said.map((each) => {
    void redis.set(CLOCK, each.time);
    // One client each: one joins messages that are told again.
    return sayTo(new RedisClient(redis, name, script), each) as Promise<unknown>;
  });
  return Promise.all(answers);
}

/** The first place where two answers differ by more than rounding. */
function difference(one: unknown, other: unknown, at = 'answer'): string | undefined {
  if (typeof one === 'number' && typeof other === 'number') {
    const isSame = one === other || Math.abs(one - other) <= 1e-6;
    return isSame ? undefined : `${at}: ${String(one)} and ${String(other)}`;
  }
  if (Object(one) !== one || Object(other) !== other) return one === other ? undefined : `${at}: ${String(one)} and ${String(other)}`;
  const [left, right] = [one as Record<string, unknown>, other as Record<string, unknown>];
  const keys = new Set([...Object.keys(left), ...Object.keys(right)]);
  for (const key of keys) {
    const found = difference(left[key], right[key], `${at}.${key}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

describe('the script of Redis', () => {
  it(`answers ${String(SEQUENCES)} sequences as the ledger does`, { timeout: 3_600_000 }, async () => {
    let granted = 0;
    await fc.assert(
      fc.asyncProperty(sequence, async (of) => {
        const answers = await answersOf(of);
        for (const [i, answer] of answers.entries()) {
          const expected = of.answers[i];
          if (expected && 'credit' in expected) granted++;
          expect(difference(expected, answer, `message ${String(i)}`)).toBeUndefined();
        }
      }),
      { numRuns: SEQUENCES },
    );
    expect(granted).toBeGreaterThan(SEQUENCES);
  });
});
