import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Credit, CreditQuestion, CreditStore, CreditWait } from '../../operators/index.js';
import { localStore } from '../../src/shared/local-store.js';
import { machineTime } from '../shared/support/plans.js';
import { testFolder } from '../shared/support/processes.js';

const NAME = 'openai:prod';
const WINDOW_MS = 10_000;

function report(name: string, what: Readonly<Record<string, string | number>>): void {
  const shown = Object.entries(what).map(([key, value]) => `${key} ${typeof value === 'number' ? value.toPrecision(3) : value}`);
  console.log(`${name}: ${shown.join(', ')}`);
}

describe('a question', () => {
  const question = (number: number, owner = 'one'): CreditQuestion => ({
    scope: 'account',
    owner,
    number,
    limits: [
      { key: 'tokens/10000/bucket/0', column: 0, amount: 1e12, windowMs: WINDOW_MS, burst: 1e10, fromLane: 0 },
      { key: 'requests/10000/bucket/0', column: 1, amount: 1e12, windowMs: WINDOW_MS, burst: 1e10, fromLane: 0 },
    ],
    guardMs: 200,
    lane: 0,
    floors: [0, 0.1],
    least: [1, 1],
    most: [1, 1],
    epoch: 0,
  });
  const ask = (store: CreditStore, of: CreditQuestion) => store.ask(of) as Credit | CreditWait | Promise<Credit | CreditWait>;

  it('takes this long', async () => {
    const common = join(testFolder(), 'stores');
    // One serves, in this process; a child would be faster than a process that asks and answers.
    const [server, client] = [localStore({ name: NAME, folder: common }), localStore({ name: NAME, folder: common })];
    await ask(server, question(0));
    await ask(client, question(0, 'other'));
    const timed = async (count: number, each: (i: number) => unknown): Promise<number> => {
      const beganAt = machineTime();
      for (let i = 1; i <= count; i++) await each(i);
      return (count / (machineTime() - beganAt)) * 1000;
    };
    const measured = {
      'own, per s': await timed(20_000, (i) => ask(server, question(i))),
      'socket, one after the other, per s': await timed(5000, (i) => ask(client, question(i, 'other'))),
      'socket, 16 at a time, per s':
        16 * (await timed(1000, (i) => Promise.all(Array.from({ length: 16 }, async (_, k) => ask(client, question(i, String(k))))))),
    };
    report('questions', measured);
    expect(measured['socket, one after the other, per s']).toBeGreaterThan(500);
  });
});
