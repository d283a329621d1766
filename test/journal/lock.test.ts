import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { takeLock } from '../../src/journal/lock.js';

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-lock-'));
  path = join(folder, 'index.jsonl.lock');
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** The id of a process that has ended. */
function deadPid(): number {
  return spawnSync(process.execPath, ['-e', '']).pid;
}

it('holds the id of its process and goes when it is released', async () => {
  const release = await takeLock(path, 'index');
  expect(readFileSync(path, 'utf8')).toBe(`${String(process.pid)}\n`);
  await release();
  expect(readdirSync(folder)).toEqual([]);
});

it('is refused while a living process holds it', async () => {
  writeFileSync(path, `${String(process.ppid)}\n`);
  await expect(takeLock(path, 'index')).rejects.toMatchObject({
    fault: 'busy',
    message: `process ${String(process.ppid)} is writing this index; wait for it, or remove \`${path}\` if it is no longer running`,
  });
  expect(readFileSync(path, 'utf8')).toBe(`${String(process.ppid)}\n`);
});

it('is taken over from a process that is gone', async () => {
  writeFileSync(path, `${String(deadPid())}\n`);
  const release = await takeLock(path, 'index');
  expect(readFileSync(path, 'utf8')).toBe(`${String(process.pid)}\n`);
  expect(readdirSync(folder)).toEqual(['index.jsonl.lock']);
  await release();
});

it('counts as held for a minute while it names no process, then its process has died before it could', async () => {
  writeFileSync(path, '');
  const { mtimeMs } = statSync(path);
  await expect(takeLock(path, 'index', () => mtimeMs + 59_999)).rejects.toMatchObject({
    fault: 'busy',
    message: expect.stringMatching(/^another run is writing this index/) as string,
  });
  const release = await takeLock(path, 'index', () => mtimeMs + 60_001);
  expect(readFileSync(path, 'utf8')).toBe(`${String(process.pid)}\n`);
  expect(readdirSync(folder)).toEqual(['index.jsonl.lock']);
  await release();
});

it('is not taken over while it names a living process, however old it is', async () => {
  writeFileSync(path, `${String(process.ppid)}\n`);
  await expect(takeLock(path, 'index', () => Infinity)).rejects.toMatchObject({ fault: 'busy' });
  writeFileSync(path, 'notes of mine\n');
  await expect(takeLock(path, 'index', () => Infinity)).rejects.toMatchObject({ fault: 'foreign' });
});

it('says when it cannot be created', async () => {
  await expect(takeLock(join(folder, 'no', 'lock'), 'index')).rejects.toMatchObject({
    fault: 'disk',
    message: expect.stringMatching(/cannot create the lock .*folder does not exist/) as string,
  });
});

it('is refused to another part of the same process, however the path is written', async () => {
  const release = await takeLock(path, 'index');
  await expect(takeLock(join(folder, 'x', '..', 'index.jsonl.lock'), 'index')).rejects.toMatchObject({
    fault: 'busy',
    message: 'this process is writing this index already; close it first',
  });
  await release();
  await (await takeLock(path, 'index'))();
});

it('may be taken again after it could not be created', async () => {
  await expect(takeLock(join(folder, 'no', 'lock'), 'index')).rejects.toMatchObject({ fault: 'disk' });
  await expect(takeLock(join(folder, 'no', 'lock'), 'index')).rejects.toMatchObject({ fault: 'disk' });
});
