import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import { join, relative } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Credit, CreditQuestion, CreditStore } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';
import { folderOf, openFolder } from '../../src/shared/local/folder.js';
import type { Contact } from '../../src/shared/local/generations.js';
import { addressOf, contactIn, freshContact, highestIn, lineOf } from '../../src/shared/local/generations.js';
import { readAnswer, readId, readRequest } from '../../src/shared/local/requests.js';
import { localStore } from '../../src/shared/local-store.js';
import { sized } from '../support/deep.js';
import { testFolder } from './support/processes.js';

const QUESTION: CreditQuestion = {
  scope: 'account',
  owner: 'one',
  number: 1,
  limits: [{ key: 'requests/60000/window/0', column: 0, amount: 1e6, windowMs: 60_000, fromLane: 0 }],
  guardMs: 100,
  lane: 0,
  floors: [0],
  least: [0],
  most: [0],
  epoch: 0,
};

let numbers = 0;

/** Whether the store answers. */
async function answers(store: CreditStore): Promise<boolean> {
  const answer = await (store.ask({ ...QUESTION, number: ++numbers }) as Promise<object>);
  return 'left' in answer;
}

interface Served {
  readonly store: CreditStore;
  readonly folder: string;
  readonly contact: Contact;
}

type WhenFinished = (clean: () => void) => void;

/** A store that this process serves. */
async function served(whenFinished?: WhenFinished): Promise<Served> {
  const common = join(testFolder(whenFinished), 'stores');
  const store = localStore({ name: 'any', folder: common });
  await answers(store);
  const folder = openFolder('localStore', 'any', common);
  return { store, folder, contact: contactOf(folder) };
}

function contactOf(folder: string): Contact {
  const [line = ''] = readFileSync(join(folder, String(highestIn(folder))), 'utf8').split('\n');
  return contactIn(line) as Contact;
}

/** A client that may say anything. */
class Attacker {
  heard = '';
  readonly socket: Socket;
  readonly closed: Promise<void>;

  constructor({ contact, folder }: Served) {
    this.socket = connect(addressOf(folder, contact));
    this.socket.setEncoding('utf8');
    this.socket.on('data', (text: string) => {
      this.heard += text;
    });
    this.socket.on('error', () => undefined);
    this.closed = new Promise((resolve) => {
      this.socket.on('close', () => {
        resolve();
      });
    });
  }

  say(...lines: readonly string[]): this {
    this.socket.write(`${lines.join('\n')}\n`);
    return this;
  }
}

function greeting({ contact: { key } }: Served, sluice = 1): string {
  return JSON.stringify({ sluice, key });
}

/** Messages of which none is one. */
const wrongNumber = fc.constantFrom<unknown>(null, '1', -1, -1e-9, 1e300, [], {}, true, 2 ** 53 + 2);
const wrongCount = fc.oneof(wrongNumber, fc.constantFrom<unknown>(0.5, 1.5));
const wrongList = fc.constantFrom<unknown>(null, 1, 'list', {}, [null], ['1'], [-1], [[]], Array(10_001).fill(1));
const wrongText = fc.constantFrom<unknown>(null, 1, [], {}, undefined);
const changed = (field: keyof CreditQuestion, value: fc.Arbitrary<unknown>) =>
  value.map((each) => ({ id: 1, ask: { ...QUESTION, [field]: each } }));
const changedLimit = (field: string, value: fc.Arbitrary<unknown>) =>
  value.map((each) => ({ id: 1, ask: { ...QUESTION, limits: [{ ...QUESTION.limits[0], [field]: each }] } }));
const wrongMessage = fc
  .oneof(
    fc.jsonValue(),
    changed('scope', wrongText),
    changed('owner', wrongText),
    changed('number', wrongCount),
    changed('guardMs', wrongNumber),
    changed('lane', wrongCount),
    changed('epoch', wrongCount),
    changed('least', wrongList),
    changed('most', fc.oneof(wrongList, fc.constant([1, 2]))),
    changed('floors', wrongList),
    changed('limits', wrongList),
    changed('lessons', fc.constantFrom<unknown>(null, 1, [], { a: -1 }, { a: '1' })),
    changedLimit('key', wrongText),
    changedLimit('column', fc.oneof(wrongCount, fc.constant(1))),
    changedLimit('amount', fc.oneof(wrongNumber, fc.constant(0))),
    changedLimit('windowMs', fc.oneof(wrongNumber, fc.constant(0))),
    changedLimit('burst', wrongNumber),
    changedLimit('endsInMs', wrongNumber),
    changedLimit('fromLane', wrongCount),
    fc.constantFrom<unknown>(
      { id: 1, hold: { scope: 'a', ms: -1 } },
      { id: 1, hold: { scope: 1, ms: 1 } },
      { id: 1, hold: [] },
      { id: 1, correct: { ...QUESTION, corrections: [{ credit: 'x', lane: 0, amounts: [1] }] } },
      { id: 1, correct: { ...QUESTION, corrections: [{ credit: 1, lane: -1, amounts: [1] }] } },
      { id: 1, correct: { ...QUESTION, corrections: [{ credit: 1, lane: 0, amounts: [1e300] }] } },
      { id: 1, correct: { ...QUESTION, corrections: { length: 1 } } },
      { id: { valueOf: 1 }, ask: { ...QUESTION } },
    ),
  )
  .map((value) => JSON.stringify(value));
const noMessage = fc.oneof(
  { weight: 8, arbitrary: wrongMessage },
  { weight: 2, arbitrary: fc.string({ maxLength: 40 }).map((text) => `${text.replaceAll('\n', '')}}`) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '',
      '[',
      '['.repeat(100_000),
      '{"a":'.repeat(20_000),
      '{"__proto__":{"ask":{}}}',
      '{"constructor":{"prototype":{"polluted":1}}}',
      '{"id":1e999}',
      'NaN',
      '\0',
      '\ud800',
    ),
  },
);

describe('the process that serves', () => {
  it('accepts none of 10,000 invalid messages', () => {
    const isTaken = (line: string): boolean => {
      try {
        const message: unknown = JSON.parse(line);
        readId(message);
        readRequest(message);
        return true;
      } catch {
        return false;
      }
    };
    expect(fc.sample(noMessage, { numRuns: 10_000, seed: 1 }).filter(isTaken)).toEqual([]);
  });

  it('cuts off the clients that send them, and serves the others', async () => {
    const all = await served();
    const messages = fc.sample(noMessage, { numRuns: sized(1000, 10_000), seed: 2 });
    for (let i = 0; i < messages.length; i += 50) {
      await Promise.all(messages.slice(i, i + 50).map((line) => new Attacker(all).say(greeting(all), line).closed));
      if (i % 500 === 0) expect(await answers(all.store)).toBe(true);
    }
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    expect(contactOf(all.folder)).toEqual(all.contact);
  });

  it('answers the messages before an invalid one', async () => {
    const all = await served();
    const attacker = new Attacker(all).say(
      greeting(all),
      JSON.stringify({ id: 7, ask: { ...QUESTION, owner: 'x' } }),
      'garbage',
      '{"id":8}',
    );
    await attacker.closed;
    const heard = attacker.heard
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(heard).toHaveLength(2);
    expect(heard).toEqual([{ sluice: 1 }, expect.objectContaining({ id: 7 })]);
  });

  it('takes names of scopes and limits as they are', async () => {
    const all = await served();
    const lessons = JSON.parse('{"__proto__":5,"constructor":6}') as Record<string, number>;
    for (const scope of ['__proto__', 'constructor', '\0', '\ud800', '"]\n[1,{}]', 'x'.repeat(10_000)])
      await all.store.ask({ ...QUESTION, scope, owner: scope, lessons, number: ++numbers });
    const attacker = new Attacker(all).say(greeting(all), JSON.stringify({ id: 1, ask: { ...QUESTION, scope: '__proto__', owner: 'x' } }));
    await expect.poll(() => attacker.heard).toContain('"lessons":{"__proto__":5,"constructor":6}');
    expect(({} as { five?: unknown }).five).toBeUndefined();
    expect(readFileSync(join(all.folder, '1'), 'utf8').trim().split('\n')).toHaveLength(2 + 8);
  });

  it.each([
    ['another key', () => JSON.stringify({ sluice: 1, key: '0'.repeat(32) })],
    ['no key', () => '{"sluice":1}'],
    ['no greeting', () => JSON.stringify({ id: 1, ask: QUESTION })],
    ['null', () => 'null'],
    ['another version', (all: Served) => greeting(all, 2)],
  ])('cuts off a client with %s', async (_, first) => {
    const all = await served();
    const attacker = new Attacker(all).say(first(all), JSON.stringify({ id: 1, ask: QUESTION }));
    await attacker.closed;
    expect(attacker.heard).not.toContain('left');
  });

  it('cuts off a client whose line is too long', async () => {
    const all = await served();
    const attacker = new Attacker(all).say(greeting(all));
    const chunk = 'x'.repeat(64 * 1024);
    for (let i = 0; i < 20 && !attacker.socket.destroyed; i++) {
      attacker.socket.write(chunk);
      await new Promise(setImmediate);
    }
    await attacker.closed;
    expect(await answers(all.store)).toBe(true);
  });

  it('cuts off a client that does not read', async () => {
    const all = await served();
    const attacker = new Attacker(all).say(greeting(all));
    attacker.socket.pause();
    const question = JSON.stringify({ id: 1, ask: QUESTION });
    const many = Array<string>(500).fill(question).join('\n');
    let said = 0;
    while (!attacker.socket.destroyed && said < 200) {
      attacker.say(many);
      said++;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    expect(said).toBeLessThan(200);
    expect(await answers(all.store)).toBe(true);
  });
});

describe('a client', () => {
  it('rejects invalid and overlong messages before it sends them', async () => {
    const common = join(testFolder(), 'stores');
    const [first, second] = [localStore({ name: 'any', folder: common }), localStore({ name: 'any', folder: common })];
    await answers(first);
    await answers(second);
    expect(() => second.ask({ ...QUESTION, least: [NaN] })).toThrow(TypeError);
    expect(() => first.ask({ ...QUESTION, least: [NaN] })).toThrow(TypeError);
    expect(() => second.ask({ ...QUESTION, scope: 'x'.repeat(300_000) })).toThrow(RangeError);
    expect(await answers(second)).toBe(true);
  });

  it('hears that less than nothing is left', async () => {
    const common = join(testFolder(), 'stores');
    const [first, second] = [localStore({ name: 'any', folder: common }), localStore({ name: 'any', folder: common })];
    await answers(first);
    const limits = [{ key: 'tokens/900000/window/0', column: 0, amount: 100, windowMs: 900_000, fromLane: 0 }];
    const question = { ...QUESTION, owner: 'other', limits, least: [60], most: [60] };
    const { credit } = (await second.ask({ ...question, number: 1 })) as unknown as Credit;
    await second.correct({ ...question, number: 1, corrections: [{ credit, lane: 0, amounts: [70] }] });
    expect(await second.ask({ ...question, number: 2 })).toMatchObject({ left: [-30], waitMs: expect.any(Number) as number });
  });

  it('reads infinite amounts that JSON makes null of', () => {
    const news = { left: [null, 5], holdMs: null, epoch: 0, lessons: { a: null } };
    const read = { left: [Infinity, 5], holdMs: Infinity, epoch: 0, lessons: { a: Infinity } };
    expect(readAnswer({ ask: QUESTION }, { ...news, waitMs: null })).toEqual({ ...read, waitMs: Infinity });
    expect(readRequest({ hold: { scope: 'a', ms: null } })).toEqual({ hold: { scope: 'a', ms: Infinity } });
  });

  it('reads that less than nothing is left, after more was spent than estimated', () => {
    const news = { left: [-3.5], holdMs: 0, epoch: 0, lessons: {} };
    expect(readAnswer({ ask: QUESTION }, { ...news, waitMs: 5 })).toEqual({ ...news, waitMs: 5 });
    expect(() => readAnswer({ ask: QUESTION }, { ...news, left: ['-3'], waitMs: 5 })).toThrow(TypeError);
  });
});

describe.concurrent('what takes its time', () => {
  /** A foreign server, found in the folder. */
  async function stranger(said: readonly string[], whenFinished: WhenFinished): Promise<CreditStore> {
    const common = join(testFolder(whenFinished), 'stores');
    const store = localStore({ name: 'any', folder: common });
    const folder = openFolder('localStore', 'any', common);
    const contact = freshContact();
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      for (const line of said) socket.write(`${line}\n`);
    });
    await new Promise<void>((resolve) => server.listen(addressOf(folder, contact), resolve));
    whenFinished(() => {
      server.close();
    });
    writeFileSync(join(folder, '1'), lineOf(contact));
    return store;
  }

  it('fails where the process that serves says nonsense', async ({ expect, onTestFinished }) => {
    const nonsense = [
      ['what?'],
      ['null'],
      ['{"sluice":2}'],
      ['{"sluice":1}', '{"id":1,"answer":{"credit":"x"}}'],
      ['{"sluice":1}', '{"id":1}'],
      ['x'.repeat(300_000)],
    ];
    const stores = await Promise.all(nonsense.map((said) => stranger(said, onTestFinished)));
    const asked = stores.map((store) => Promise.resolve(store.ask(QUESTION)));
    for (const each of await Promise.allSettled(asked))
      expect(each).toMatchObject({ status: 'rejected', reason: { message: 'the local store does not answer' } });
  });

  it('takes over from a server that says nothing', async ({ expect, onTestFinished }) => {
    const store = await stranger([], onTestFinished);
    const beganAt = performance.now();
    expect(await answers(store)).toBe(true);
    expect(performance.now() - beganAt).toBeLessThan(1500);
  });

  it('cuts off a client that begins a line and does not end it, and keeps one that is silent', async ({ expect, onTestFinished }) => {
    const all = await served(onTestFinished);
    const [silent, slow, mute] = [new Attacker(all), new Attacker(all), new Attacker(all)];
    silent.say(greeting(all));
    slow.say(greeting(all)).socket.write('{"id":1');
    const beganAt = performance.now();
    await Promise.all([slow.closed, mute.closed]);
    expect(performance.now() - beganAt).toBeGreaterThan(1500);
    silent.say(JSON.stringify({ id: 9, ask: { ...QUESTION, owner: 'x' } }));
    await expect.poll(() => silent.heard).toContain('"id":9');
    silent.socket.destroy();
  });
});

describe('a name', () => {
  it('may be anything: 10,000 of them have folders of their own', () => {
    const common = join(testFolder(), 'stores');
    const odd = ['..', '/', '../../x', '\0', '\ud800', '\udfff', 'CON', '-rf', '~', '%2e%2e', 'a'.repeat(1e5), 'A', 'a', 'é', 'e\u0301'];
    const names = [...new Set([...odd, ...Array.from({ length: 10_000 }, (_, i) => String.fromCharCode((i * 7919) % 65_536, i % 256))])];
    const folders = new Set(names.map((name) => relative(common, folderOf(name, common))));
    expect(folders.size).toBe(names.length);
    for (const folder of folders) expect(folder).toMatch(/^[\da-f]{24}$/);
    for (const name of odd) localStore({ name, folder: common });
    expect(readdirSync(common)).toHaveLength(odd.length);
  });
});

describe('the folder', () => {
  const isRoot = process.geteuid?.() === 0;
  const at = (folder: string) => () => localStore({ name: 'any', folder });

  it('has rights for no other user, nor has what is in it', async () => {
    const { contact, folder } = await served();
    const modes = [join(folder, '..'), folder, join(folder, contact.socket), join(folder, '1')].map((path) => statSync(path).mode & 0o777);
    expect(modes).toEqual([0o700, 0o700, 0o600, 0o600]);
  });

  it.each([0o770, 0o707, 0o755, 0o701])('is refused with the rights %o', (mode) => {
    const folder = join(testFolder(), 'open');
    mkdirSync(folder);
    chmodSync(folder, mode);
    expect(at(folder)).toThrow(FlowConfigError);
    expect(at(folder)).toThrow(`other users have rights to the folder \`${folder}\`. Run \`chmod 700\` on it`);
  });

  it('is refused when it is a link, a file, or cannot be created', () => {
    const around = testFolder();
    mkdirSync(join(around, 'real'), { mode: 0o700 });
    symlinkSync(join(around, 'real'), join(around, 'link'));
    writeFileSync(join(around, 'file'), '');
    expect(at(join(around, 'link'))).toThrow('is a link');
    expect(at(join(around, 'file'))).toThrow('cannot create the folder');
    expect(at(join(around, 'file', 'below'))).toThrow('cannot create the folder');
  });

  it('is refused when it is too long for a socket', () => {
    const folder = join(testFolder(), 'x'.repeat(80));
    expect(at(folder)).toThrow(/too long for the path of a socket. Pass a `folder` of at most \d\d bytes/);
  });

  it.runIf(isRoot)('is refused when it belongs to another user', () => {
    const folder = join(testFolder(), 'theirs');
    mkdirSync(folder, { mode: 0o700 });
    chownSync(folder, 65_534, 65_534);
    expect(at(folder)).toThrow(`the folder \`${folder}\` belongs to another user`);
  });

  // Only root can start a process of another user.
  it.runIf(isRoot)('lets no process of another user in', async () => {
    const { contact, folder, store } = await served();
    // The folder of the test lets others through; that of the store does not.
    chmodSync(join(folder, '..', '..'), 0o755);
    const tryAs = (uid: number | undefined) =>
      spawnSync(
        process.execPath,
        [
          '-e',
          `const path = ${JSON.stringify(join(folder, contact.socket))};
           try { require('fs').readdirSync(require('path').dirname(path)); console.log('read'); } catch (error) { console.log(error.code); }
           require('net').connect(path, () => { console.log('in'); process.exit(); }).on('error', (error) => console.log(error.code));`,
        ],
        { encoding: 'utf8', cwd: '/', ...(uid !== undefined && { uid, gid: uid }) },
      ).stdout.split('\n');
    expect(tryAs(65_534)).toEqual(['EACCES', 'EACCES', '']);
    expect(tryAs(undefined)).toEqual(['read', 'in', '']);
    // Nor where the folder would let it through.
    for (const each of [folder, join(folder, '..')]) chmodSync(each, 0o755);
    expect(tryAs(65_534)).toEqual(['read', 'EACCES', '']);
    for (const each of [folder, join(folder, '..')]) chmodSync(each, 0o700);
    expect(await answers(store)).toBe(true);
  });
});
