import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import type { Subscription } from 'rxjs';
import { concat, NEVER, of, throwError } from 'rxjs';
import { beforeAll, describe, expect, it } from 'vitest';
import { leakCheck } from '../../marbles/leak-check.js';
import { createBatcher, createLimiter } from '../../operators/index.js';
import type { Shape } from '../matrix/shape.js';
import { echo, fault, never } from '../matrix/shape.js';
import { shapes } from '../matrix/shapes.js';
import { matrix } from '../matrix/table.js';
import { atOnce } from '../support/at-once.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';
import { HELD, MARKS } from './heap.js';

const SUBSCRIPTIONS = sized(500, 10_000);
/** How far the heap may move between the first look and the last: noise of the collector, not a byte for each item. */
const MOST_GROWTH_BYTES = 1_000_000;

const all: Readonly<Record<string, Shape>> = shapes;

/** Virtual time for all timers, and a moment for every promise. */
async function settle(clock: CountingScheduler): Promise<void> {
  for (let i = 0; i < 6; i++) {
    clock.flush();
    await new Promise((done) => setImmediate(done));
  }
}

describe('thousands of subscriptions', () => {
  it('are made of every operator', () => {
    expect(Object.keys(all).toSorted()).toEqual(Object.keys(matrix).toSorted());
  });

  it.each(Object.entries(all))(
    '%s leaves nothing: it completed, errored, or was left early, in the middle or during a call',
    { timeout: 60_000 },
    async (_name, { run, holding }) => {
      const clock = new CountingScheduler();
      const leaks = leakCheck({ scheduler: clock });
      try {
        const ignore = { error: () => undefined };
        const completed: Subscription[] = [];
        const keeps = { scheduler: clock, ...holding };
        for (let n = 0; n < SUBSCRIPTIONS; n += 5) {
          const done = run(of(1, 2, 3), { scheduler: clock }, echo).subscribe(ignore);
          run(
            concat(
              of(1, 2),
              throwError(() => fault),
            ),
            keeps,
            never,
          ).subscribe(ignore);
          run(concat(of(1, 2), NEVER), keeps, never)
            .subscribe(ignore)
            .unsubscribe();
          const held = run(concat(of(1, 2), NEVER), keeps, never).subscribe(ignore);
          const worked = run(concat(of(1, 2), NEVER), { scheduler: clock }, never).subscribe(ignore);
          if (n % 500 === 0) await settle(clock);
          held.unsubscribe();
          worked.unsubscribe();
          completed.push(done);
        }
        await settle(clock);
        // Only what never ends, as a store, has anything to leave by now.
        for (const subscription of completed) subscription.unsubscribe();
        await settle(clock);
        expect(leaks.left()).toEqual([]);
      } finally {
        leaks[Symbol.dispose]();
      }
    },
  );

  it('and a signal that lives on: it has no listener left', { timeout: 60_000 }, async () => {
    const clock = new CountingScheduler();
    const { signal } = new AbortController();
    const batcher = createBatcher((items: readonly number[]) => of(items), { scheduler: atOnce(clock) });
    const limiter = createLimiter({ concurrency: 1, scheduler: clock });
    const leaks = leakCheck({ scheduler: clock, holders: { batcher, limiter } });
    try {
      for (let n = 0; n < SUBSCRIPTIONS; n++) {
        batcher.load(n, { signal }).subscribe();
        const left = batcher.load(n, { signal }).subscribe();
        limiter.acquire({ signal }).subscribe((lease) => {
          lease.release();
        });
        const lease = limiter.tryAcquire()!;
        const waiting = limiter.acquire({ signal }).subscribe();
        left.unsubscribe();
        waiting.unsubscribe();
        lease.release();
      }
      await settle(clock);
      expect(leaks.left()).toEqual([]);
    } finally {
      leaks[Symbol.dispose]();
      batcher.close();
    }
  });
});

describe(`the heap after ${MARKS.items.join(', ')} items, or ${MARKS.keys.join(', ')} keys`, () => {
  let heaps: Readonly<Record<string, readonly number[]>>;

  beforeAll(async () => {
    const cache = resolve(import.meta.dirname, '../../node_modules/.cache');
    await mkdir(cache, { recursive: true });
    const dir = await mkdtemp(join(cache, 'heap-'));
    const outfile = join(dir, 'heap.mjs');
    try {
      const entryPoints = [join(import.meta.dirname, 'heap.child.ts')];
      await build({ entryPoints, bundle: true, format: 'esm', platform: 'node', target: 'es2022', packages: 'external', outfile });
      const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', outfile]);
      heaps = JSON.parse(stdout) as typeof heaps;
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  }, 180_000);

  it.each(Object.keys(all).filter((name) => !(name in HELD)))('%s: flat', (name) => {
    expect(heaps[name]).toHaveLength(MARKS.items.length);
    expect(heaps[name]!.at(-1)! - heaps[name]![0]!).toBeLessThan(MOST_GROWTH_BYTES);
  });

  it.each(['a cache with room', 'a full cache', 'a cache of old values'])('createBatcher, %s: flat', (kind) => {
    const bytes = heaps[`createBatcher, ${kind}`]!;
    expect(bytes).toHaveLength(MARKS.items.length);
    expect(bytes.at(-1)! - bytes[0]!).toBeLessThan(MOST_GROWTH_BYTES);
  });

  it.each(['bulkheadMap', 'createBatcher', 'switchLatest'])('%s: flat over keys', (name) => {
    const bytes = heaps[`${name}, a key for each`]!;
    expect(bytes).toHaveLength(MARKS.keys.length);
    expect(bytes.at(-1)! - bytes[0]!).toBeLessThan(MOST_GROWTH_BYTES);
  });
});
