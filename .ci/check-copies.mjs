// Several copies of the packed package in one process work with each other: what one made, another takes. Two ECMAScript copies in
// two folders and a CommonJS copy share one rxjs. Build first, then: node .ci/check-copies.mjs
import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { install, inThrowAwayFolder, manifest, pack, pinned, report } from './consumer.mjs';

await inThrowAwayFolder('copies', async (folder) => {
  const consumer = join(folder, 'consumer');
  install(consumer, pack(folder, { isBuilt: true }), ...pinned('rxjs'));
  const first = join(consumer, 'node_modules', manifest.name);
  const second = join(consumer, 'other', 'node_modules', manifest.name);
  cpSync(first, second, { recursive: true });
  const require = createRequire(join(consumer, 'program.cjs'));
  const rxjs = require('rxjs');
  const copies = [await load('the first copy', first), await load('the second copy', second), loadCommonJs(require)];
  const pairs = copies.flatMap((maker) => copies.filter((user) => user !== maker).map((user) => ({ maker, user, rxjs })));
  await report([
    ['there are three copies', () => assert.equal(new Set(copies.map(({ operators }) => operators.batch)).size, 3)],
    ...Object.entries({ errors, limiters, leases, hedges, settled, marbles }).map(([name, check]) => [
      `${name} of one copy in the others`,
      async () => {
        for (const pair of pairs) {
          await check(pair).catch((error) => {
            throw new Error(`made by ${pair.maker.name}, used by ${pair.user.name}: ${error.message}`, { cause: error });
          });
        }
        return `${pairs.length} pairs`;
      },
    ]),
  ]);
});

async function load(name, folder) {
  const entry = (file) => import(pathToFileURL(join(folder, 'dist', file)).href);
  return { name, operators: await entry('operators.js'), marbles: await entry('marbles.js') };
}

function loadCommonJs(require) {
  return { name: 'the CommonJS copy', operators: require(`${manifest.name}/operators`), marbles: require(`${manifest.name}/marbles`) };
}

/** `isFlowError` and `classifyError` recognise errors of another copy, thrown and built. */
async function errors({ maker, user, rxjs: { lastValueFrom, of, throwError } }) {
  const { FlowConfigError, OverflowError, AttemptTimeoutError } = maker.operators;
  const { isFlowError, classifyError, batchMap } = user.operators;
  assert.throws(
    () => maker.operators.batch({ maxSize: 0 }),
    (error) => isFlowError(error, 'FLOW_CONFIG_INVALID') && !isFlowError(error, 'FLOW_CLOSED'),
  );
  assert.ok(isFlowError(new OverflowError('batch', 1, 'error'), 'FLOW_OVERFLOW'));
  const verdict = (error) => classifyError(error, { aborted: false, attempt: 1, size: 1 }).class;
  assert.equal(verdict(new AttemptTimeoutError('batch', 10)), 'timeout');
  assert.equal(
    verdict(new FlowConfigError('batch', 'maxSize', 'more', 0)),
    verdict(new user.operators.FlowConfigError('batch', 'maxSize', 'more', 0)),
  );
  const reason = new OverflowError('inner', 1, 'error');
  const settled = await lastValueFrom(of('item').pipe(batchMap(() => throwError(() => reason))));
  assert.equal(settled.reason, reason);
}

/** A limiter works as the `limiter` option of everything that takes one, and counts what all of them have in flight. */
async function limiters({ maker, user, rxjs }) {
  const { defer, from, lastValueFrom, toArray, timer, map } = rxjs;
  const { batchMap, batchMapFrom, bulkheadMap, createBatcher, hedge, policy } = user.operators;
  const limiter = maker.operators.createLimiter({ concurrency: 2 });
  const items = [1, 2, 3, 4, 5, 6];
  const executing = [];
  const seen = (answer) =>
    defer(() => {
      executing.push(limiter.snapshot().executing);
      return timer(1).pipe(map(() => answer));
    });
  const streams = [
    from(items).pipe(batchMap(seen, { limiter, maxSize: 1 })),
    batchMapFrom(items, seen, { limiter, maxSize: 1 }),
    from(items).pipe(bulkheadMap(seen, { limiter })),
    from(items).pipe(bulkheadMap(seen, { key: (item) => item, perKey: 1, limiter })),
    hedge(() => seen('answer'), { limiter, delayMs: 1000 }),
    policy({ limiter, breaker: maker.operators.createBreaker() })(() => seen('answer')),
  ];
  const batcher = createBatcher(seen, { limiter, maxSize: 1 });
  const results = await Promise.all([
    ...streams.map((stream) => lastValueFrom(stream.pipe(toArray()))),
    Promise.all(items.map((item) => batcher.loadAsync(item))),
  ]);
  assert.deepEqual(
    results.map((result) => result.flat().length),
    [6, 6, 6, 6, 1, 1, 6],
  );
  assert.equal(Math.max(...executing), 2);
  assert.equal(limiter.snapshot().executing, 0);
  limiter.close();
  const [refused] = await lastValueFrom(from([1]).pipe(bulkheadMap(seen, { limiter }), toArray()));
  assert.ok(user.operators.isFlowError(refused.reason, 'FLOW_CLOSED'));
}

/** A lease of one copy, given back while operators of another wait for it. */
async function leases({ maker, user, rxjs: { from, lastValueFrom, toArray } }) {
  const limiter = maker.operators.createLimiter({ concurrency: 1 });
  const lease = limiter.tryAcquire();
  const answers = lastValueFrom(
    from([1, 2]).pipe(
      user.operators.batchMap(async (items) => items, { limiter }),
      toArray(),
    ),
  );
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(limiter.snapshot().executing, 1);
  lease.settle({ inputTokens: 1 });
  lease.release();
  assert.equal((await answers).length, 2);
}

async function hedges({ user, rxjs: { lastValueFrom, NEVER, of } }) {
  const attempt = (index) => (index === 0 ? NEVER : of('hedged'));
  assert.equal(await lastValueFrom(user.operators.hedge(attempt, { delayMs: 1 })), 'hedged');
}

/** Results of one copy's operator go through `unwrap` of another. */
async function settled({ maker, user, rxjs: { from, lastValueFrom } }) {
  const stream = from([1, 2]).pipe(
    maker.operators.batchMap(async (items) => items),
    user.operators.unwrap('all'),
  );
  assert.deepEqual((await lastValueFrom(stream)).sort(), [1, 2]);
}

/** Marbles of one copy run, draw and hold to the laws the operators of another, and see what those leave behind. */
async function marbles({ maker, user }) {
  const { batch } = user.operators;
  const { checkLaws, draw, leakCheck, runSpec, virtualTime } = maker.marbles;
  const spec = {
    inputs: { source: '-a-b|' },
    expected: '---x|',
    values: { x: ['a', 'b'] },
    build: ({ input }) => input('source').pipe(batch({ maxSize: 2 })),
  };
  runSpec(spec, (actual, expected) => assert.deepEqual(actual, expected));
  assert.equal(
    draw({ ...spec, operator: 'batch', title: 'pairs', label: 'batch' }),
    user.marbles.draw({ ...spec, operator: 'batch', title: 'pairs', label: 'batch' }),
  );
  const subject = {
    operator: 'batch',
    create: ({ onEvent } = {}) => batch({ maxSize: 2, onEvent }),
    holdsAtMost: 2,
    itemsOf: (items) => items,
  };
  assert.deepEqual(checkLaws(subject), user.marbles.checkLaws(subject));
  virtualTime(({ scheduler }) => {
    const leaks = leakCheck();
    user.operators.createLimiter({ concurrency: 1, scheduler }).close();
    leaks.verify();
    leaks[Symbol.dispose]();
  });
}
