import { appendFileSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { asyncScheduler } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Credit, CreditQuestion, CreditWait } from '../../operators/index.js';
import { memoryStore } from '../../operators/index.js';
import { openFolder } from '../../src/shared/local/folder.js';
import { highestIn } from '../../src/shared/local/generations.js';
import { LocalServer } from '../../src/shared/local/local-server.js';
import type { Said } from './support/messages.js';
import { conversation, sayTo } from './support/messages.js';
import { testFolder } from './support/processes.js';

let now = 0;
const servers = new Set<LocalServer>();

beforeEach(() => {
  now = 1_700_000_000_000;
  vi.spyOn(Date, 'now').mockImplementation(() => now);
});

afterEach(() => {
  vi.restoreAllMocks();
  for (const server of servers) server.close();
  servers.clear();
});

function newFolder(): string {
  return openFolder('localStore', 'any', join(testFolder(), 'stores'));
}

async function started(folder: string): Promise<LocalServer> {
  const server = await LocalServer.start(folder, highestIn(folder));
  if (!server) throw new Error('another server was faster');
  servers.add(server);
  return server;
}

function say(server: LocalServer, said: Said): Credit | CreditWait | undefined {
  const { afterMs: _, ...request } = said;
  return server.answer(request);
}

const question = (number: number, over: Partial<CreditQuestion> = {}): CreditQuestion => ({
  scope: 'account',
  owner: 'one',
  number,
  limits: [{ key: 'tokens/60000/window/0', column: 0, amount: 1000, windowMs: 60_000, fromLane: 0 }],
  guardMs: 100,
  lane: 0,
  floors: [0],
  least: [1],
  most: [1],
  epoch: 0,
  ...over,
});

/** Whether the server grants something, of a window that is over once. */
function grants(server: LocalServer, number: number, tokens = 1): boolean {
  return 'credit' in (server.answer({ ask: question(number, { least: [tokens], most: [tokens] }) }) as object);
}

/** A server of which all is known, with a window that has begun anew. */
async function usedServer(folder: string): Promise<LocalServer> {
  const server = await started(folder);
  server.answer({ hold: { scope: 'other', ms: 0 } });
  now += 700_000;
  expect(grants(server, 1, 900)).toBe(true);
  return server;
}

describe('servers one after the other', () => {
  it('answer as one that lives on', async () => {
    await fc.assert(
      fc.asyncProperty(conversation, fc.array(fc.nat({ max: 9 }), { minLength: 80, maxLength: 80 }), async (all, dice) => {
        const folder = newFolder();
        const reference = memoryStore({
          scheduler: { now: () => now, schedule: asyncScheduler.schedule.bind(asyncScheduler) },
          startsEmpty: true,
        });
        // It begins now, as the server does.
        reference.save();
        let server = await started(folder);
        for (const [i, said] of all.entries()) {
          now += said.afterMs;
          // Killed, or only succeeded.
          const die = dice[i] as number;
          if (die === 0) server.close();
          if (die < 2) server = await started(folder);
          expect(say(server, said)).toEqual(sayTo(reference, said));
        }
        server.close();
      }),
      { numRuns: 40 },
    );
  });

  it('write the log anew before it is large, and continue from that', async () => {
    const folder = newFolder();
    const server = await usedServer(folder);
    for (let number = 2; number < 5000; number++) grants(server, number, 101);
    expect(readFileSync(join(folder, '1')).length).toBeLessThan(1_100_000);
    expect(grants(server, 5000, 100)).toBe(true);
    server.close();
    expect(grants(await started(folder), 5001)).toBe(false);
  });

  it('leave two files and a socket behind', async () => {
    const folder = newFolder();
    for (let i = 0; i < 20; i++) {
      const server = await started(folder);
      now += 20_000;
      server.close();
    }
    expect(readdirSync(folder).sort()).toEqual(['19', '20']);
  });

  it('grant nothing after a successor has begun', async () => {
    const folder = newFolder();
    const first = await usedServer(folder);
    expect(first.isCurrent).toBe(true);
    const second = await started(folder);
    expect(first.isCurrent).toBe(false);
    expect(second.isCurrent).toBe(true);
    expect(grants(second, 2, 101)).toBe(false);
    expect(grants(second, 3, 100)).toBe(true);
  });

  it('step back when the folder is emptied', async () => {
    const folder = newFolder();
    const first = await usedServer(folder);
    rmSync(join(folder, '1'));
    expect(first.isCurrent).toBe(false);
  });

  it('do not use a number twice', async () => {
    const folder = newFolder();
    const all = await Promise.all(Array.from({ length: 20 }, () => LocalServer.start(folder, 0)));
    const begun = all.filter((server) => server !== undefined);
    expect(begun).toHaveLength(1);
    for (const server of begun) servers.add(server);
    for (let i = 0; i < 3; i++) await started(folder);
    // One that has slept since then.
    expect(await LocalServer.start(folder, 0)).toBeUndefined();
    expect(await LocalServer.start(folder, 1)).toBeUndefined();
    expect(readdirSync(folder).filter((name) => /^\d$/.test(name))).toEqual(['3', '4']);
  });
});

describe('a log that is not whole', () => {
  it('is read up to a line that was cut off', async () => {
    const folder = newFolder();
    const first = await usedServer(folder);
    first.close();
    appendFileSync(join(folder, '1'), '[1700000000000,{"ask":{"scope":');
    const second = await started(folder);
    expect(grants(second, 2, 101)).toBe(false);
    expect(grants(second, 3, 100)).toBe(true);
  });

  it.each([
    [
      'is empty',
      (file: string) => {
        truncateSync(file);
      },
    ],
    [
      'is gone',
      (file: string) => {
        rmSync(file);
      },
    ],
    [
      'has no state',
      (file: string) => {
        writeFileSync(file, `${readFileSync(file, 'utf8').split('\n')[0] as string}\n`);
      },
    ],
    [
      'has something else within',
      (file: string) => {
        appendFileSync(file, 'what?\n[1700000000000,{"hold":{"scope":"other","ms":0}}]\n');
      },
    ],
    [
      'has a time without end',
      (file: string) => {
        appendFileSync(file, '[1e300,{"hold":{"scope":"other","ms":0}}]\n');
      },
    ],
    [
      'has another state',
      (file: string) => {
        writeFileSync(file, `${readFileSync(file, 'utf8').split('\n')[0] as string}\n{"at":1,"scopes":[["account",{"windows":1}]]}\n`);
      },
    ],
    [
      'is of another version',
      (file: string) => {
        writeFileSync(file, readFileSync(file, 'utf8').replace('"sluice":1', '"sluice":2'));
      },
    ],
  ])('begins empty when it %s', async (_, harm) => {
    const folder = newFolder();
    const first = await usedServer(folder);
    first.close();
    harm(join(folder, '1'));
    const second = await started(folder);
    // Evenly: the whole of it, but for what was granted before.
    expect(grants(second, 2, 100)).toBe(false);
    now += 700_000;
    expect(grants(second, 3, 1000)).toBe(true);
  });

  it('is continued from the one before when a server ended before it had written', async () => {
    const folder = newFolder();
    const first = await usedServer(folder);
    first.close();
    const [contact] = readFileSync(join(folder, '1'), 'utf8').split('\n');
    writeFileSync(join(folder, '2'), `${contact as string}\n{"at":17`);
    const third = await started(folder);
    expect(highestIn(folder)).toBe(3);
    expect(grants(third, 2, 101)).toBe(false);
    expect(grants(third, 3, 100)).toBe(true);
  });

  it('continues in time when the clock was set back', async () => {
    const folder = newFolder();
    const first = await usedServer(folder);
    first.close();
    now -= 3_600_000;
    const second = await started(folder);
    expect(grants(second, 2, 101)).toBe(false);
    now += 61_000;
    expect(grants(second, 3, 101)).toBe(true);
    now -= 5000;
    expect(grants(second, 4, 900)).toBe(false);
    now += 61_000;
    expect(grants(second, 5, 900)).toBe(true);
  });
});

describe('a log that cannot be written', () => {
  it('is not taken for whole by the next server', async () => {
    const folder = newFolder();
    const server = await usedServer(folder);
    const { log } = server as unknown as { log: { file: number } };
    const { file } = log;
    // Nothing can be written to what is open for nothing.
    log.file = -1;
    expect(grants(server, 2, 50)).toBe(true);
    log.file = file;
    expect(readFileSync(join(folder, '1'), 'utf8').split('\n')).toHaveLength(2);
    server.close();
    expect(grants(await started(folder), 3, 50)).toBe(false);
  });

  it('is written anew as soon as that is possible', async () => {
    const folder = newFolder();
    const server = await usedServer(folder);
    const { log } = server as unknown as { log: { file: number } };
    const { file } = log;
    log.file = -1;
    expect(grants(server, 2, 50)).toBe(true);
    log.file = file;
    now += 2000;
    expect(grants(server, 3, 10)).toBe(true);
    server.close();
    const next = await started(folder);
    expect(grants(next, 4, 41)).toBe(false);
    expect(grants(next, 5, 40)).toBe(true);
  });
});
