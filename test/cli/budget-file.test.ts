import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { budgetFile } from '../../src/cli/budget-file.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import { sized } from '../support/deep.js';
import { repeatable } from '../traps/tools.js';

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-budget-'));
  path = join(folder, 'answers.jsonl.budget');
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const limits = [{ tokens: 1_000_000 }];
const spent = (): number => createBudget({ limits, storage: budgetFile(path) }).snapshot().limits[0]?.spent ?? 0;

it('is empty at first, and has what was charged from then on', () => {
  expect(budgetFile(path).load()).toBeUndefined();
  const budget = createBudget({ limits, storage: budgetFile(path) });
  const call = budget.reserve({ model: 'small', inputTokens: 100 });
  expect(spent()).toBe(100);
  call.settle({ inputTokens: 40 });
  expect(spent()).toBe(40);
  expect(readdirSync(folder)).toEqual(['answers.jsonl.budget']);
});

it('is read with the mark of a byte order in front of it, too', () => {
  createBudget({ limits, storage: budgetFile(path) }).reserve({ model: 'small', inputTokens: 100 });
  writeFileSync(path, `\uFEFF${readFileSync(path, 'utf8')}`);
  expect(spent()).toBe(100);
});

it.each(['', 'notes\n', '{"limits":[]}\n', '{"kind":"sluice-budget"}\n', '{"kind":"sluice-budget","limits":[]}', '[]\n', 'null\n'])(
  'refuses a file that holds no budget (%j)',
  (text) => {
    writeFileSync(path, text);
    expect(() => createBudget({ limits, storage: budgetFile(path, 'answers.budget') })).toThrow(
      '`answers.budget` is there already and holds no budget; give another name, or remove it first',
    );
  },
);

it('refuses what is damaged inside, and says that it is the store', () => {
  writeFileSync(path, '{"kind":"sluice-budget","limits":[{"unit":"usd","startedAt":0,"charged":-5}]}\n');
  expect(() => createBudget({ limits, storage: budgetFile(path) })).toThrow(
    'expected `storage` to be a storage whose `load` returns what a budget has saved',
  );
});

it('says what the disk says, and leaves nothing behind', () => {
  const inside = join(folder, 'no', 'such', 'folder');
  const budget = createBudget({ limits, storage: budgetFile(inside) });
  expect(() => budget.reserve({ model: 'small' })).toThrow(`cannot write the budget \`${inside}\`: the folder does not exist (ENOENT)`);
  mkdirSync(path);
  expect(() => createBudget({ limits, storage: budgetFile(path) })).toThrow('cannot read the budget');
  expect(() => {
    budgetFile(path).save({ limits: [] });
  }).toThrow(expect.objectContaining({ fault: 'disk' }) as Error);
  expect(readdirSync(folder)).toEqual(['answers.jsonl.budget']);
});

it('goes on behind a line that is torn, and stays small', () => {
  const store = budgetFile(path);
  const budget = createBudget({ limits, storage: store });
  for (let i = 0; i < 20; i++) budget.reserve({ model: 'small', inputTokens: 10 });
  appendFileSync(path, '{"kind":"sluice-bud');
  expect(spent()).toBe(200);
  const next = createBudget({ limits, storage: budgetFile(path) });
  next.reserve({ model: 'small', inputTokens: 10 });
  expect(spent()).toBe(210);
  const sizes: number[] = [];
  for (let i = 0; i < 14_000; i++) {
    store.save({ limits: [{ unit: 'tokens', startedAt: 0, charged: i }] });
    if (i % 1000 === 0) sizes.push(statSync(path).size);
  }
  expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000_000);
  expect(sizes.some((size, i) => size < (sizes[i - 1] ?? 0))).toBe(true);
  expect(spent()).toBe(13_999);
});

/** Reserves, says so, sends, settles; for ever. */
const SPENDER = `
  import { writeSync } from 'node:fs';
  import { budgetFile } from './src/cli/budget-file.ts';
  import { createBudget } from './src/pipelines/create-budget.ts';
  const budget = createBudget({ limits: [{ tokens: 1_000_000 }], storage: budgetFile(process.argv[2]) });
  for (const open = []; ; ) {
    open.push(budget.reserve({ model: 'small', inputTokens: 10, outputTokens: 90 }));
    writeSync(1, 'sent\\n');
    if (open.length > 3) {
      open.shift().settle({ inputTokens: 10, outputTokens: 40 });
      writeSync(1, 'used\\n');
    }
  }
`;

async function killed(child: ChildProcess, afterMs: number): Promise<string> {
  let said = '';
  child.stdout?.on('data', (part: Buffer) => {
    said += part.toString();
  });
  await once(child.stdout!, 'data');
  await new Promise((done) => setTimeout(done, afterMs));
  child.kill('SIGKILL');
  await once(child, 'close');
  return said;
}

it('has everything that was ever sent, whenever its process is killed', { timeout: 120_000 }, async () => {
  const bundle = join(folder, 'spender.mjs');
  const root = resolve(import.meta.dirname, '../..');
  const stdin = { contents: SPENDER, resolveDir: root, loader: 'ts' } as const;
  await build({
    stdin,
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile: bundle,
    logLevel: 'error',
    alias: { '#async-context': join(root, 'src/async-context.ts') },
  });
  const random = repeatable(17);
  let charged = 0;
  for (let i = 0; i < sized(2, 60); i++) {
    const said = await killed(spawn(process.execPath, [bundle, path], { stdio: ['ignore', 'pipe', 'inherit'] }), random() * 30);
    const sent = said.split('sent').length - 1;
    const used = said.split('used').length - 1;
    expect(sent).toBeGreaterThan(0);
    const now = spent();
    // What is known to be used for that, what was under way for its estimate; one of each kind may not have been said any more.
    const known = charged + (sent - used) * 100 + used * 50;
    expect(now).toBeGreaterThanOrEqual(known - 50);
    expect(now).toBeLessThanOrEqual(known + 100);
    charged = now;
  }
  expect(['spender.mjs', 'answers.jsonl.budget', 'answers.jsonl.budget.tmp']).toEqual(expect.arrayContaining(readdirSync(folder)));
});
