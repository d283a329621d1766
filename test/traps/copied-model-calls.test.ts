import { describe, expect, it } from 'vitest';
import { callAll, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { presets } from '../../src/pipelines/presets.js';
import { hostTime, numbers, sleep } from './tools.js';

// A model call for each property of a request, as a design for it writes them: a semaphore, a loop of attempts in it, and a collector of
// results that hands out all or nothing.

interface Call {
  (property: string, signal: AbortSignal): Promise<string>;
}

const badRequest = Object.assign(new Error('bad request'), { status: 400 });
const overloaded = Object.assign(new Error('overloaded'), { status: 503 });

function isRetriable(error: { readonly status?: number; readonly message: string }): boolean {
  const { status = 0 } = error;
  return status === 429 || (status >= 500 && status < 600) || error.message === 'deadline exceeded';
}

/** One call; the signal of the request is taken and not looked at. */
async function callWithRetry(call: Call, property: string, _request: AbortSignal, maxRetry: number, timeoutMs: number): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    const own = new AbortController();
    const late = new Promise<never>((_, reject) => {
      setTimeout(() => {
        reject(new Error('deadline exceeded'));
        own.abort();
      }, timeoutMs);
    });
    try {
      return await Promise.race([call(property, own.signal), late]);
    } catch (error) {
      if (!isRetriable(error as Error) || attempt === maxRetry) throw error;
    }
    await sleep(attempt * 100);
  }
}

/** All of them, as many at a time as the semaphore has places. The total time limit is in the text, and not here. */
async function generateParams(call: Call, properties: readonly string[], request: AbortSignal): Promise<Record<string, string>> {
  const { concurrency, timeoutMs } = presets.modelCaller.production;
  const waiting: (() => void)[] = [];
  let free: number = concurrency;
  const results = properties.map(async (property) => {
    if (free === 0) await new Promise<void>((resolve) => void waiting.push(resolve));
    else free--;
    try {
      return { property, params: await callWithRetry(call, property, request, 2, timeoutMs) };
    } catch (error) {
      return { property, error };
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  });
  const params: Record<string, string> = {};
  const missing: unknown[] = [];
  for (const result of await Promise.all(results)) {
    if (result.params === undefined) missing.push(result.error);
    else params[result.property] = result.params;
  }
  if (missing.length > 0) throw new Error('missing params', { cause: missing });
  return params;
}

/** The same of ours. */
function ourParams(call: Call, properties: readonly string[], request: AbortSignal): Promise<Record<string, string>> {
  const caller = createModelCaller({
    ...presets.modelCaller.production,
    call: (property: string, { signal }) => call(property, signal),
    random: () => 0,
  });
  const requests = Object.fromEntries(properties.map((property) => [property, property]));
  return new Promise((resolve, reject) => {
    callAll(caller, requests, { signal: request }).subscribe({ next: resolve, error: reject });
  });
}

const designs = { theirs: generateParams, ours: ourParams };

/** What happens when, in both designs, until so many ms have passed; `stopMs` is when the request is given up. */
async function compare(call: (log: string[]) => Call, properties: readonly string[], passMs: number, stopMs = Infinity) {
  const logs: Record<keyof typeof designs, string[]> = { theirs: [], ours: [] };
  for (const [name, design] of Object.entries(designs) as [keyof typeof designs, typeof ourParams][]) {
    const log = logs[name];
    await hostTime(async (pass) => {
      const request = new AbortController();
      design(call(log), properties, request.signal).then(
        () => log.push(`all at ${Date.now()}`),
        (error: unknown) => log.push(`${(error as Error).name} at ${Date.now()}`),
      );
      if (stopMs !== Infinity) {
        await pass(stopMs);
        request.abort();
      }
      await pass(passMs);
    });
  }
  return logs;
}

/** Ends when its signal says so, as a client does. */
const never =
  (log: string[]): Call =>
  (property, signal) =>
    new Promise((_, reject) => {
      log.push(`${property} at ${Date.now()}`);
      signal.addEventListener('abort', () => {
        log.push(`${property} stopped at ${Date.now()}`);
        reject(new DOMException('stopped', 'AbortError'));
      });
    });

describe('a model call for each property', () => {
  it('that fails for good lets the others run, and spend, to their end; here they are stopped, and the rest is never sent', async () => {
    const call =
      (log: string[]): Call =>
      async (property, signal) => {
        if (property === 'p1') {
          await sleep(50);
          throw badRequest;
        }
        log.push(`${property} sent`);
        signal.addEventListener('abort', () => log.push(`${property} stopped at ${Date.now()}`));
        await sleep(1000);
        return property;
      };
    const { theirs, ours } = await compare(call, ['p0', 'p1', 'p2', 'p3', 'p4', 'p5'], 5000);
    expect(theirs).toEqual(['p0 sent', 'p2 sent', 'p3 sent', 'p4 sent', 'p5 sent', 'Error at 2000']);
    expect(ours).toEqual(['p0 sent', 'p2 sent', 'p3 sent', 'p0 stopped at 50', 'p2 stopped at 50', 'p3 stopped at 50', 'Error at 50']);
  });

  it('cannot be stopped by the request it belongs to; here leaving stops all of them', async () => {
    const { theirs, ours } = await compare(never, ['p0', 'p1'], 15_000, 20);
    expect(theirs.filter((line) => line.endsWith('at 20'))).toEqual([]);
    expect(theirs).toContain('p0 at 10100');
    expect(ours).toEqual(['p0 at 0', 'p1 at 0', 'p0 stopped at 20', 'p1 stopped at 20', 'AbortError at 20']);
  });

  it('has a total time limit in the text only: eight of them take 40 s; here 30 s is 30 s', async () => {
    const { theirs, ours } = await compare(
      never,
      numbers(8).map((i) => `p${i}`),
      60_000,
    );
    expect(theirs.at(-1)).toBe('Error at 40200');
    expect(ours.at(-1)).toBe('DeadlineError at 30000');
    expect(ours.filter((line) => line.endsWith('stopped at 30000'))).not.toEqual([]);
  });

  it('keeps its place while it pauses; here the others have it meanwhile', async () => {
    const call = (log: string[]): Call => {
      let refusals = 0;
      return async (property) => {
        log.push(`${property} at ${Date.now()}`);
        if (property !== 'p4' && refusals++ < 4) throw overloaded;
        await sleep(10);
        return property;
      };
    };
    const { theirs, ours } = await compare(call, ['p0', 'p1', 'p2', 'p3', 'p4'], 5000);
    expect(theirs.find((line) => line.startsWith('p4'))).toBe('p4 at 110');
    expect(ours.find((line) => line.startsWith('p4'))).toBe('p4 at 0');
  });
});
