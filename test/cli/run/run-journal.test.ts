import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KeyCounts } from '../../../src/cli/run/key-counts.js';
import { badRow, type Row, rowOf } from '../../../src/cli/run/row.js';
import { RunJournal } from '../../../src/cli/run/run-journal.js';
import type { StageKey } from '../../../src/cli/run/run-plan.js';

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-run-journal-'));
  path = join(folder, 'out.jsonl.journal');
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const row = (number: number): Row => rowOf(number, { id: String(number) }, undefined, String(number)) as Row;
const same = (number: number): Row => rowOf(number, { text: 'same' }, undefined, 'same') as Row;

const stagesOf = (work: string): StageKey[] => [{ name: 's', key: `of ${work}`, asks: true }];

async function begun(retryFailed = false, work = 'w', stages = stagesOf(work)): Promise<RunJournal> {
  const journal = await RunJournal.read({ path, shown: 'out.jsonl.journal', work, stages, retryFailed });
  await journal.begin();
  return journal;
}

describe('the journal of a run', () => {
  it('knows a finished row again, an open one with its answers, and a new one not at all', async () => {
    const first = await begun();
    const [a, b] = [first.nameOf(row(1)), first.nameOf(row(2))];
    await first.append({ documentId: a, stage: 's', item: '', value: ['x'] });
    await first.append({ documentId: b, stage: 's', item: '0', value: { deep: 1 } });
    await first.append({ documentId: b, stage: 's', item: '1', value: undefined });
    await first.end({ documentId: a, status: 'ok', outputBytes: 70, failuresBytes: 0 });
    await first.close();

    const second = await begun();
    expect(second).toMatchObject({ isNew: false, damagedLines: 0, outputBytes: 70, failuresBytes: 0 });
    expect([row(1), row(2), row(3)].map((r) => second.endOf(r))).toEqual(['earlier', undefined, undefined]);
    expect(second.endOf(row(1))).toBe(undefined);
    expect(second.nameOf(row(2))).toBe(b);
    expect(await second.recall(b)).toEqual([
      { documentId: b, stage: 's', item: '0', value: { deep: 1 } },
      { documentId: b, stage: 's', item: '1', value: null },
    ]);
    expect(await second.recall(second.nameOf(row(3)))).toEqual([]);
    await second.close();
  });

  it('is read behind the mark of a byte order', async () => {
    const first = await begun();
    const name = first.nameOf(row(1));
    await first.append({ documentId: name, stage: 's', item: '', value: 'x' });
    await first.close();
    writeFileSync(path, `\uFEFF${readFileSync(path, 'utf8')}`);
    const second = await begun();
    expect(second).toMatchObject({ isNew: false, damagedLines: 0 });
    expect(await second.recall(second.nameOf(row(1)))).toEqual([{ documentId: name, stage: 's', item: '', value: 'x' }]);
    await second.close();
  });

  it('never gives one name to two rows in progress, however equal they are', async () => {
    const first = await begun();
    const names = [first.nameOf(same(1)), first.nameOf(same(2))];
    for (const documentId of names) await first.append({ documentId, stage: 's', item: '', value: documentId });
    await first.close();
    const second = await begun();
    const again = [4, 1, 2].map((number) => second.nameOf(same(number)));
    expect(new Set(again).size).toBe(3);
    expect(again.slice(0, 2).sort()).toEqual([...names].sort());
    await second.close();
  });

  it('counts failed rows as done until they are to be tried again, and says which of their items are written', async () => {
    const first = await begun();
    const [partial, failed] = [first.nameOf(row(1)), first.nameOf(row(2))];
    const bad = badRow(3, '3', 'nonsense', 'it is not JSON');
    for (const documentId of [partial, failed]) await first.append({ documentId, stage: 's', item: '0', value: 1 });
    await first.end({ documentId: partial, status: 'partial', outputBytes: 10, failuresBytes: 5 });
    await first.end({ documentId: failed, status: 'failed', outputBytes: 10, failuresBytes: 9 });
    await first.end({ documentId: first.nameOf(bad), status: 'failed', outputBytes: 10, failuresBytes: 12 });
    await first.close();

    const second = await begun();
    expect([row(1), row(2), bad].map((r) => second.endOf(r))).toEqual(['earlierFailed', 'earlierFailed', 'earlierFailed']);
    expect(second.failuresBytes).toBe(12);
    await second.close();

    const third = await begun(true);
    expect([row(1), row(2), bad].map((r) => third.endOf(r))).toEqual([undefined, undefined, undefined]);
    expect(third).toMatchObject({ outputBytes: 10, failuresBytes: 0 });
    for (const [name, r] of [
      [partial, row(1)],
      [failed, row(2)],
    ] as const) {
      expect(third.nameOf(r)).toBe(name);
      expect(await third.recall(name)).toHaveLength(1);
    }
    expect([partial, failed].map((name) => third.isWritten(name, 's', '0'))).toEqual([true, false]);
    // A second item, and then the process is killed.
    await third.append({ documentId: partial, stage: 's', item: '1', value: 2 });
    await third.close();

    const fourth = await begun();
    expect([row(1), row(2), bad].map((r) => fourth.endOf(r))).toEqual([undefined, undefined, undefined]);
    expect(await fourth.recall(fourth.nameOf(row(1)))).toHaveLength(2);
    expect(['0', '1'].map((item) => fourth.isWritten(partial, 's', item))).toEqual([true, false]);
    await fourth.close();
  });

  it('is whole up to the line it was cut off in, wherever that is', async () => {
    const first = await begun();
    const name = first.nameOf(row(1));
    for (let item = 0; item < 5; item++) await first.append({ documentId: name, stage: 's', item: String(item), value: item });
    await first.close();
    const whole = readFileSync(path);
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length), async (at) => {
        writeFileSync(path, whole.subarray(0, at));
        const complete = whole.subarray(0, at).toString().split('\n').length - 1;
        const journal = await begun();
        expect(journal).toMatchObject({ isNew: false, damagedLines: 0 });
        const known = await journal.recall(journal.nameOf(row(1)));
        expect(known.map(({ value }) => value)).toEqual([0, 1, 2, 3, 4].slice(0, Math.max(0, complete - 1)));
        await journal.close();
      }),
      { numRuns: 30 },
    );
  });

  it('passes over damaged lines and counts them', async () => {
    const first = await begun();
    await first.append({ documentId: first.nameOf(row(1)), stage: 's', item: '', value: 'x' });
    await first.close();
    writeFileSync(path, `${readFileSync(path, 'utf8').replace('"x"', '"y"')}noise\n`);
    const second = await begun();
    expect(second.damagedLines).toBe(2);
    expect(second.nameOf(row(1))).toMatch(/^2-/);
    await second.close();
  });

  it('changes nothing before it is begun', async () => {
    const journal = await RunJournal.read({ path, shown: 'j', work: 'w', stages: stagesOf('w'), retryFailed: false });
    expect(journal.isNew).toBe(true);
    await journal.close();
    expect(existsSync(path)).toBe(false);
  });

  it('begins anew when it has no answer to what is asked now, and none to anything else', async () => {
    const first = await begun();
    await first.end({ documentId: first.nameOf(row(1)), status: 'failed', outputBytes: 0, failuresBytes: 80 });
    await first.close();
    const second = await begun(false, 'other');
    expect(second).toMatchObject({ isNew: false, outputBytes: 0, failuresBytes: 0 });
    expect(second.endOf(row(1))).toBe(undefined);
    await second.close();
    expect(await RunJournal.read({ path, shown: path, work: 'other', stages: stagesOf('other'), retryFailed: false })).toMatchObject({
      isNew: false,
    });
  });

  it('is refused when it has answers to something else, or is none', async () => {
    const first = await begun();
    await first.append({ documentId: first.nameOf(row(1)), stage: 's', item: '', value: 'x' });
    await first.close();
    await expect(begun(false, 'other')).rejects.toMatchObject({
      exitCode: 2,
      message:
        'the journal `out.jsonl.journal` has answers to other prompts, or of another model; give another `output.path`, or remove it, the output and the failures to begin anew',
    });
    writeFileSync(path, 'Dear diary,\n');
    await expect(begun()).rejects.toMatchObject({ fault: 'foreign', message: expect.stringMatching(/is not a journal/) as string });
    expect(readFileSync(path, 'utf8')).toBe('Dear diary,\n');
  });
});

describe('counts of keys', () => {
  it('are those of a map', () => {
    const key = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((n) => n.toString(16).padStart(16, '0'));
    const few = fc.constantFrom('0000000000000000', '0000000000000400', '0000000000000800', 'ffffffff00000400');
    const steps = fc.array(fc.tuple(fc.boolean(), fc.oneof(few, key)), { maxLength: 3000, size: 'max' });
    fc.assert(
      fc.property(steps, (all) => {
        const counts = new KeyCounts();
        const map = new Map<string, number>();
        const wrong: string[] = [];
        const take = (k: string, is: boolean): void => {
          if (counts.take(k) !== is) wrong.push(k);
        };
        for (const [isAdded, k] of all) {
          const before = map.get(k) ?? 0;
          if (isAdded) counts.add(k);
          else take(k, before > 0);
          map.set(k, Math.max(0, before + (isAdded ? 1 : -1)));
        }
        for (const [k, count] of map) {
          for (let i = 0; i < count; i++) take(k, true);
          take(k, false);
        }
        expect(wrong).toEqual([]);
      }),
      { numRuns: 30 },
    );
  });
});
