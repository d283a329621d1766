import { from, lastValueFrom, mergeMap, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { virtualTime } from '../../marbles/virtual.js';
import { createWorker } from '../../marbles/worker.js';
import { batchMap, bulkheadMap, createBatcher, createLimiter, lanes, perMinute, settleAll } from '../../operators/index.js';
import { deferred, hostTime, numbers, sleep, stateOf, turns } from './tools.js';

// Documents, their parts and a queue of model calls in front of them, as notes on such a pipeline write it down.

describe('a worker that waits for its queue with a time limit', () => {
  interface Task {
    readonly call: () => Promise<string>;
    readonly resolve: (value: string) => void;
  }

  /** Hands tasks out, counts those that are not done, and does not take "done" for a task it has not handed out. */
  class TaskQueue {
    #open = 0;
    readonly #tasks: Task[] = [];
    #wake = deferred<undefined>();
    put(task: Task): void {
      this.#open++;
      this.#tasks.push(task);
      this.#wake.resolve(undefined);
      this.#wake = deferred();
    }
    async get(timeoutMs: number): Promise<Task> {
      const task = this.#tasks.shift();
      if (task !== undefined) return task;
      const isThere = await Promise.race([this.#wake.promise.then(() => true), sleep(timeoutMs).then(() => false)]);
      if (!isThere) throw new Error('nothing came');
      return this.get(timeoutMs);
    }
    taskDone(): void {
      if (this.#open === 0) throw new Error('more tasks done than were there');
      this.#open--;
    }
  }

  function startWorker(): { readonly submit: (call: () => Promise<string>) => Promise<string>; diedOf: string } {
    const queue = new TaskQueue();
    const worker = {
      diedOf: '',
      submit: (call: () => Promise<string>): Promise<string> =>
        new Promise((resolve) => {
          queue.put({ call, resolve });
        }),
    };
    const serve = async (): Promise<never> => {
      for (;;) {
        try {
          const { call, resolve } = await queue.get(1000);
          resolve(await call());
        } catch {
          // A note in the log; the caller is not told.
        } finally {
          queue.taskDone();
        }
      }
    };
    serve().catch((error: unknown) => (worker.diedOf = (error as Error).message));
    return worker;
  }

  it('dies of an idle second, because it reports a task it never had as done; here a batcher may idle for ever', async () => {
    await hostTime(async (pass) => {
      const theirs = startWorker();
      const ours = createBatcher((items: readonly string[]) => Promise.resolve(items));
      await pass(1500);
      expect(theirs.diedOf).toBe('more tasks done than were there');
      expect(await stateOf(theirs.submit(() => Promise.resolve('late')))).toBe('pending');
      await expect(ours.loadAsync('late')).resolves.toBe('late');
    });
  });

  it('never tells the caller of a failure; here the load rejects, and the next is served', async () => {
    await hostTime(async () => {
      const theirs = startWorker();
      expect(await stateOf(theirs.submit(() => Promise.reject(new Error('refused'))))).toBe('pending');
      const refused = Object.assign(new Error('refused'), { status: 401 });
      const ours = createBatcher((items: readonly string[]) => (items.includes('bad') ? Promise.reject(refused) : Promise.resolve(items)));
      await expect(ours.loadAsync('bad')).rejects.toBe(refused);
      await expect(ours.loadAsync('good')).resolves.toBe('good');
    });
  });
});

describe('waiting for the first failure', () => {
  it('and then reading all results breaks on those that are not there, and the others go on spending; here they are aborted', async () => {
    const fault = new Error('the second');
    await hostTime(async (pass) => {
      let spent = 0;
      const call = async (i: number, { signal }: { readonly signal: AbortSignal }): Promise<number> => {
        if (i === 1) throw fault;
        await sleep(10);
        if (!signal.aborted) spent++;
        return i;
      };
      const results = new Map<number, number>();
      const running = numbers(4).map((i) => call(i, new AbortController()).then((value) => void results.set(i, value)));
      await expect(Promise.all(running)).rejects.toBe(fault);
      const read = (i: number): number => {
        if (!results.has(i)) throw new Error('result is not set');
        return results.get(i)!;
      };
      expect(() => numbers(4).map(read)).toThrow('result is not set');
      await pass(10);
      expect(spent).toBe(3);

      spent = 0;
      await expect(lastValueFrom(settleAll(numbers(4), call, { errors: 'propagate' }))).rejects.toBe(fault);
      await pass(10);
      expect(spent).toBe(0);
    });
  });
});

describe('a limit for each document', () => {
  const documents = ['a', 'b'];
  const chunks = numbers(10);

  it('is multiplied by the documents, and says in process where nothing runs; here one limiter holds for all and tells both apart', () => {
    virtualTime(({ advance, flush }) => {
      const inProcess = { now: 0, most: 0 };
      const model = createLimiter({ concurrency: 4 });
      const worker = createWorker<string, string>({ marbles: '-----(r|)', answer: (chunk) => chunk });
      // Four at a time for each document, and all of them wait in front of the same four places.
      from(documents)
        .pipe(
          mergeMap((document) =>
            from(chunks).pipe(
              mergeMap((chunk) => {
                inProcess.most = Math.max(inProcess.most, ++inProcess.now);
                return model.run(() => worker.work(`${document}${chunk}`));
              }, 4),
            ),
          ),
        )
        .subscribe(() => inProcess.now--);
      flush();
      expect(inProcess.most).toBe(8);
      expect(worker.peak).toBe(4);

      const shared = createLimiter({ concurrency: 4 });
      const ours = createWorker<string, string>({ marbles: '-----(r|)', answer: (chunk) => chunk });
      const seen: string[] = [];
      for (const document of documents)
        from(chunks)
          .pipe(bulkheadMap((chunk) => ours.work(`${document}${chunk}`), { limiter: shared }))
          .subscribe(({ status }) => seen.push(status));
      advance(1);
      expect(shared.snapshot()).toMatchObject({ executing: 4, heldBySlot: 2 });
      flush();
      expect(ours.peak).toBe(4);
      expect(seen).toEqual([...numbers(20)].map(() => 'fulfilled'));
    });
  });

  it('holds the place of a document while its calls wait elsewhere; here an item has a place only while its call runs', () => {
    virtualTime(({ advance, flush }) => {
      // A limit on documents around the limit on calls: no document may start though no call of the first two runs.
      const model = createLimiter({ concurrency: 1 });
      const busy = model.tryAcquire()!;
      const held: string[] = [];
      const stock = from(['a', 'b', 'c'])
        .pipe(
          mergeMap((document) => {
            held.push(document);
            return model.run(() => of(document));
          }, 2),
        )
        .subscribe();
      expect(held).toEqual(['a', 'b']);
      stock.unsubscribe();

      const started: string[] = [];
      from(['a', 'b', 'c'])
        .pipe(bulkheadMap((document) => of(started.push(document)), { limiter: model }))
        .subscribe();
      advance(5);
      expect(started).toEqual([]);
      expect(model.snapshot().executing).toBe(1);
      busy.release();
      flush();
      expect(started).toEqual(['a', 'b', 'c']);
    });
  });
});

describe('more calls at a time', () => {
  const run = (limiter: ReturnType<typeof createLimiter>) =>
    virtualTime(({ flush, scheduler }) => {
      const provider = fakeProvider({ answer: (text: string) => text, requestsPerMinute: 600, burstSeconds: 1, latencyMs: 20, scheduler });
      const statuses: string[] = [];
      from(numbers(100).map((i) => `text ${i}`))
        .pipe(batchMap(provider.work, { maxSize: 1, limiter }))
        .subscribe(({ status }) => statuses.push(status));
      flush();
      return { refused: provider.refused, fulfilled: statuses.filter((status) => status === 'fulfilled').length };
    });

  it('than the rate of the provider allows are refused; here the limiter knows both, and none is', () => {
    expect(run(createLimiter({ concurrency: 16 })).refused).toBeGreaterThan(50);
    expect(run(createLimiter({ concurrency: 16, rates: [perMinute('requests', 600, { burst: 9 })] }))).toEqual({
      refused: 0,
      fulfilled: 100,
    });
  });
});

describe('a queue that is always served by urgency', () => {
  it('never comes to the least urgent in a flood; here a lane has a floor', async () => {
    const flood = async (serve: (log: string[]) => Promise<void>): Promise<number> => {
      const log: string[] = [];
      await serve(log);
      return log.indexOf('later');
    };
    const theirs = await flood(async (log) => {
      const queue: [number, string][] = [[1, 'later']];
      for (let served = 0; served < 100; served++) {
        queue.push([0, 'now']);
        queue.sort(([a], [b]) => a - b);
        log.push(queue.shift()![1]);
      }
      await turns(1);
    });
    const ours = await flood(async (log) => {
      const limiter = createLimiter({ concurrency: 1, queue: lanes([{ name: 'now' }, { name: 'later', floor: 0.1 }]) });
      const lease = await limiter.acquireAsync();
      const run = (lane: string): Promise<unknown> => {
        if (log.length < 100 && lane === 'now') void limiter.runAsync(() => run(lane), { lane }).catch(() => undefined);
        return Promise.resolve(log.push(lane));
      };
      void limiter.runAsync(() => run('later'), { lane: 'later' });
      const urgent = limiter.runAsync(() => run('now'), { lane: 'now' });
      lease.release();
      await urgent;
      await limiter.drain();
    });
    expect(theirs).toBe(-1);
    expect(ours).toBeGreaterThan(-1);
    expect(ours).toBeLessThan(20);
  });
});
