import { Worker } from 'node:worker_threads';

/** What a worker is given: where to begin, and where it writes what it is about. */
export interface Given<T> {
  readonly task: T;
  readonly from: number;
  /** `[number of the step, length of its name]`, and the name. */
  readonly shared: SharedArrayBuffer;
}

const BYTES = 512;
const encoder = new TextEncoder();

/** In the worker: says which step begins, so that one that never ends can be named. */
export function beat({ shared }: Given<unknown>, step: number, name: string): void {
  const numbers = new Int32Array(shared, 0, 2);
  const { written } = encoder.encodeInto(name, new Uint8Array(shared, 8));
  Atomics.store(numbers, 1, written);
  Atomics.store(numbers, 0, step);
}

/**
 * Runs code that goes through steps and posts what it finds. A step that keeps the worker busy for `patienceMs` never ends: it is told of, and
 * another worker goes on behind it.
 */
export async function runWatched(
  code: string,
  task: unknown,
  {
    patienceMs = 15_000,
    heard,
    hangs,
  }: { readonly patienceMs?: number; readonly heard: (message: never) => void; readonly hangs: (step: string) => void },
): Promise<void> {
  let from = 0;
  while (from >= 0) from = await runOnce(from);

  function runOnce(begin: number): Promise<number> {
    const shared = new SharedArrayBuffer(8 + BYTES);
    const numbers = new Int32Array(shared, 0, 2);
    const given: Given<unknown> = { task, from: begin, shared };
    Atomics.store(numbers, 0, begin);
    return new Promise((resolve, reject) => {
      const worker = new Worker(code, {
        eval: true,
        workerData: given,
        // Thousands of small worlds: most of what is made is garbage at once.
        resourceLimits: { maxYoungGenerationSizeMb: 64 },
      });
      let isHung = false;
      let seen = -1;
      let since = Date.now();
      const watch = setInterval(() => {
        const now = Atomics.load(numbers, 0);
        if (now !== seen) {
          seen = now;
          since = Date.now();
        } else if (Date.now() - since > patienceMs) {
          clearInterval(watch);
          isHung = true;
          hangs(new TextDecoder().decode(new Uint8Array(shared, 8, Atomics.load(numbers, 1)).slice()));
          void worker.terminate().then(() => {
            resolve(now + 1);
          });
        }
      }, 100);
      worker.on('message', heard as (message: unknown) => void);
      worker.on('error', (error) => {
        clearInterval(watch);
        reject(error);
      });
      worker.on('exit', () => {
        clearInterval(watch);
        if (!isHung) resolve(-1);
      });
    });
  }
}
