import fc from 'fast-check';
import type { Observable } from 'rxjs';
import { from, map, mergeMap, NEVER, of, Subscription, throwError, timer } from 'rxjs';
import { z } from 'zod';
import {
  backpressure,
  batch,
  bulkheadMap,
  childOf,
  coalesce,
  conflateWhileBusy,
  createBreaker,
  createIntake,
  createLimiter,
  divideAndConquer,
  hedge,
  keyedLimiter,
  mergeLanes,
  policy,
  rateLimit,
  resequence,
  retryFailed,
  settleAll,
  speculate,
  toAsyncIterable,
  toReadableStream,
} from '../../operators/index.js';
import type { CallRecord, FlowEvent, Limiter, Settled } from '../../src/index.js';
import {
  batchMap,
  batchMapFrom,
  chatCompletions,
  createAccount,
  createAgentTurn,
  createBatcher,
  createBudget,
  createEmbedder,
  createModelCaller,
  createStages,
  createToolRunner,
  defineTool,
  robust,
  switchLatest,
  unwrap,
} from '../../src/index.js';
import { turnEvents } from '../../src/inspector/turn-events.js';
import { createMetrics } from '../../src/metrics/index.js';
import { accountedCaller } from '../support/accounted-caller.js';

/** A secret in all the user's data, and whether the work with it fails. */
export interface Plant {
  readonly secret: string;
  readonly item: Item;
  readonly items: readonly Item[];
  readonly error: Error;
  readonly fails: boolean;
  /** Work with a planted item: takes a moment, then fails or answers. */
  work<T>(given: T): Observable<T>;
}
interface Item {
  readonly id: string;
  readonly text: string;
}
export interface Told {
  readonly onEvent: (event: FlowEvent) => void;
  readonly onRecord: (record: CallRecord) => void;
}

export const plants = fc
  .record({
    digits: fc.integer({ min: 1, max: 0x7fffffff }),
    fails: fc.boolean(),
    status: fc.constantFrom(400, 401, 429, 500, undefined),
    passing: fc.boolean(),
  })
  .map(({ digits, fails, status, passing }): Plant => {
    const secret = `sk-Live-${digits.toString(16)}-geheim`;
    const items = [1, 2, 3].map((n) => ({ id: `${secret}-${String(n)}`, text: `the password is ${secret}` }));
    const error = Object.assign(new Error(`401 for key ${secret}`, { cause: new Error(secret) }), {
      ...{ status, code: secret, param: secret, type: secret, requestID: secret, name: `E${secret}` },
      headers: { authorization: `Bearer ${secret}`, 'x-request-id': secret },
      error: { message: secret, code: secret },
    });
    let calls = 0;
    const work = <T>(given: T): Observable<T> =>
      timer(0).pipe(mergeMap(() => (fails && !(passing && calls++ > 0) ? throwError(() => error) : of(given))));
    return { secret, items, item: items[0] as Item, error, fails, work };
  });

/** Waits for the end, whatever it is; what hangs is left. */
const over = (result: Observable<unknown>): Promise<void> =>
  new Promise((resolve) => {
    const running = new Subscription();
    const done = (): void => {
      clearTimeout(late);
      running.unsubscribe();
      resolve();
    };
    const late = setTimeout(done, 40);
    running.add(result.subscribe({ error: done, complete: done }));
  });
const quiet = (promise: Promise<unknown>): Promise<unknown> => promise.catch(() => undefined);

const retry = { maxAttempts: 2, delayMs: 1, maxThrottledMs: 5, maxShare: 1 } as const;
const key = (item: Item): string => item.id;

/** Uses every way to take a permit of a limiter. */
const used = (limiter: Limiter, { secret }: Plant): Promise<void> => {
  const job = { id: `${secret}-job`, key: secret };
  const held = limiter.tryAcquire(job);
  const waiting = limiter.acquire(job).subscribe();
  held?.observe({ status: 429, headers: new Headers({ 'retry-after-ms': '1', 'x-request-id': secret }) });
  held?.release('error', new Error(secret));
  waiting.unsubscribe();
  limiter.clear(new Error(secret));
  limiter.close();
  return Promise.resolve();
};
const refused = (error: Error, item: Item): Settled<Item, Item> => ({
  ...{ status: 'rejected', reason: error, input: item, index: 0, id: item.id, attempts: 1 },
});

/** Every source of events, given secrets in all its data. In a name, the text behind a comma says which variant. */
export const subjects: Readonly<Record<string, (plant: Plant, told: Told) => Promise<unknown>>> = {
  batch: ({ items }, { onEvent }) => over(from(items).pipe(batch({ maxSize: 2, onEvent }))),
  batchMap: ({ items, work }, { onEvent }) =>
    over(from(items).pipe(batchMap((all: readonly Item[]) => work(all), { maxSize: 2, repair: robust({ retry }), onEvent }))),
  batchMapFrom: ({ items, work }, { onEvent }) =>
    over(batchMapFrom(items, (all: readonly Item[]) => work(all), { maxSize: 2, repair: robust({ retry }), onEvent })),
  bulkheadMap: ({ items, work }, { onEvent }) =>
    over(from(items).pipe(bulkheadMap((item: Item) => work(item), { key, perKey: 1, timeoutMs: 20, onEvent }))),
  switchLatest: ({ items, work, secret }, { onEvent }) =>
    over(from(items).pipe(switchLatest((item: Item) => work(item), { key: () => secret, errors: 'settle', onEvent }))),
  mergeLanes: ({ items }, { onEvent }) => over(mergeLanes([{ name: 'user', source: from(items) }], { maxSize: 2, onEvent })),
  backpressure: ({ items }, { onEvent }) =>
    over(from(items).pipe(backpressure({ ready: NEVER, maxQueued: 1, overflow: 'dropOldest', onEvent }))),
  coalesce: ({ items }, { onEvent }) => over(from(items).pipe(coalesce<Item>({ merge: (one) => one, maxWaitMs: 1, onEvent }))),
  conflateWhileBusy: ({ items }, { onEvent }) =>
    over(
      from(items).pipe(
        conflateWhileBusy<Item, string>({ ready: NEVER, seed: key, merge: (all, item) => all + key(item), maxWeight: 2, onEvent }),
      ),
    ),
  resequence: ({ items }, { onEvent }) =>
    over(from(items).pipe(resequence<Item>(({ id }) => 2 * Number(id.slice(-1)), { onGap: 'skip', maxQueued: 1, onEvent }))),
  policy: ({ item, work }, { onEvent }) => over(policy({ retry: retryFailed(retry), onEvent })(() => work(item))),
  settleAll: ({ items, work }, { onEvent }) =>
    over(settleAll(items, (item: Item) => work(item), { timeoutMs: 20, guard: ({ id }) => (id.endsWith('3') ? id : true), onEvent })),
  unwrap: ({ items, error }, { onEvent }) =>
    over(
      from(items).pipe(
        map((item) => refused(error, item)),
        unwrap('values', { onEvent }),
      ),
    ),
  speculate: ({ items, item, work }, { onEvent }) =>
    over(speculate((all) => work(all), { predict: of(items), confirm: of(item), match: () => false, onEvent })),
  toAsyncIterable: async ({ items }, { onEvent }) => {
    for await (const _ of toAsyncIterable(from(items), { maxQueued: 1, overflow: 'dropOldest', onEvent })) break;
  },
  toReadableStream: async ({ items }, { onEvent }) => {
    const reader = toReadableStream(from(items), { maxQueued: 1, overflow: 'dropOldest', onEvent }).getReader();
    await reader.read();
    await reader.cancel(items);
  },
  hedge: ({ item, work }, { onEvent }) => over(hedge(() => work(item), { delayMs: 0, onEvent })),
  createBreaker: ({ error }, { onEvent }) =>
    over(createBreaker({ onEvent, opens: { inARow: 1 } }).run(() => throwError(() => Object.assign(error, { status: 500 })))),
  createBatcher: async ({ items, work, secret }, { onEvent }) => {
    const batcher = createBatcher((all: readonly Item[]) => work(all), { maxSize: 2, dedupe: key, repair: divideAndConquer(), onEvent });
    const leaving = new AbortController();
    const all = items.map((item, i) => quiet(batcher.loadAsync(item, i === 0 ? { signal: leaving.signal } : {})));
    leaving.abort(new Error(secret));
    await Promise.all(all);
    await batcher.drain();
  },
  createIntake: async ({ items }, { onEvent }) => {
    const intake = createIntake<Item>({ maxQueued: 1, onEvent });
    for (const item of items) void quiet(Promise.resolve(intake.offer(item)));
    intake.close();
  },
  createLimiter: (plant, { onEvent }) => used(createLimiter({ concurrency: 1, onEvent }), plant),
  createAccount: (plant, { onEvent }) => used(createAccount({ concurrency: 1, requestsPerMinute: 600, onEvent }), plant),
  childOf: (plant, { onEvent }) => used(childOf(createLimiter({ concurrency: 1 }), { concurrency: 1, onEvent }), plant),
  keyedLimiter: (plant, { onEvent }) => used(keyedLimiter(createLimiter(), { concurrency: 1, onEvent }).of(plant.secret), plant),
  rateLimit: ({ items }, { onEvent }) => {
    const limiter = createLimiter();
    limiter.pause();
    return over(from(items).pipe(rateLimit(limiter, {}, { maxQueued: 1, overflow: 'dropOldest', onEvent })));
  },
  createEmbedder: async ({ items, work, secret }, { onEvent }) => {
    const embedder = createEmbedder({
      call: (texts) => work(texts.map(() => [1, 2])),
      repair: robust({ retry }),
      onEvent,
    });
    const leaving = new AbortController();
    const all = items.map(({ id }, i) => quiet(embedder.embedAsync(id, i === 0 ? { signal: leaving.signal } : {})));
    leaving.abort(secret);
    await Promise.all(all);
    await embedder.drain();
  },
  'createModelCaller, a client': async ({ item, work, secret }, { onEvent, onRecord }) => {
    const models = createModelCaller({
      call: (question: string) => work(question),
      model: 'm',
      retry,
      onEvent,
      onRecord,
      limiter: createAccount({ concurrency: 4 }),
    });
    const leaving = new AbortController();
    const left = quiet(models.callAsync(item.text, { signal: leaving.signal }));
    leaving.abort(new Error(secret));
    await Promise.all([left, quiet(models.callAsync(item.text))]);
    const parsed = createModelCaller({
      call: (question: string) => Promise.resolve(question),
      parse: (text) => JSON.parse(text) as unknown,
      onEvent,
      onRecord,
      limiter: createAccount({ concurrency: 4 }),
    });
    await quiet(parsed.callAsync(item.text));
  },
  'createModelCaller, an endpoint': async ({ item, fails, secret }, { onEvent, onRecord }) => {
    const answer = { choices: [{ index: 0, message: { role: 'assistant', content: secret }, finish_reason: 'stop' }] };
    const models = accountedCaller({
      ...{ retry, onEvent, onRecord },
      call: chatCompletions({
        ...{ baseUrl: `http://127.0.0.1:9/${secret}`, apiKey: secret, headers: { 'x-key': secret }, model: 'm' },
        fetch: () =>
          Promise.resolve(
            fails
              ? Response.json(
                  { error: { message: secret, code: secret, type: secret } },
                  { status: 500, headers: { 'x-request-id': secret } },
                )
              : Response.json(answer),
          ),
      }),
    });
    await quiet(models.callAsync({ messages: [{ role: 'user', content: item.text }] }));
  },
  createToolRunner: async ({ item, error, fails, secret }, { onEvent }) => {
    const read = defineTool({
      ...{ name: 'read', description: secret, parameters: z.object({ path: z.string() }), idempotent: true, retry },
      execute: () => (fails ? Promise.reject(error) : Promise.resolve(secret)),
    });
    const tools = createToolRunner({ tools: [read], guard: ({ id }) => (id.endsWith('denied') ? secret : true), onEvent });
    await tools.runAllAsync([
      { id: item.id, name: 'read', input: { path: secret } },
      { id: `${secret}-bad`, name: 'read', input: { [secret]: 1 } },
      { id: `${secret}-denied`, name: 'read', input: { path: secret } },
      { id: `${secret}-unknown`, name: `${secret}-tool`, input: {} },
    ]);
  },
  createStages: async ({ items, work }, { onEvent }) => {
    const stages = createStages([{ name: 'answer', work: (item: unknown) => work(item) }], { id: key, onEvent });
    await over(stages.run(items as never));
    stages.close();
  },
  createBudget: ({ secret }, { onEvent }) => {
    const budget = createBudget({ limits: [{ key: secret, model: secret, tokens: 5 }], onEvent });
    const call = { model: secret, key: secret, inputTokens: 4 };
    budget.reserve(call).settle({ inputTokens: 50 });
    return quiet(Promise.resolve().then(() => budget.reserve(call)));
  },
  createMetrics: ({ items }, { onEvent }) => {
    const metrics = createMetrics();
    metrics.events.subscribe(onEvent);
    return over(from(items).pipe(batch({ onEvent: metrics.sink })));
  },
  createAgentTurn: async ({ item, work, secret }, { onEvent }) => {
    const look = { name: 'look', description: secret, parameters: z.object({ [secret]: z.string() }), execute: () => work(secret) };
    const call = { id: secret, name: 'look', input: { [secret]: secret } };
    const turns = createAgentTurn({
      tools: createToolRunner({ tools: [look] }),
      model: (messages) => (messages.length > 2 ? of(secret) : of(secret, { type: 'toolCall' as const, call })),
    });
    // Its own events contain texts and inputs, for interfaces that show them. `turnEvents` makes flow events of them.
    const flow = turnEvents();
    turns.events.subscribe((told) => {
      for (const event of flow(told)) onEvent(event as FlowEvent);
    });
    await over(turns.ask(item.text, { key: secret }));
    turns.close();
  },
};
