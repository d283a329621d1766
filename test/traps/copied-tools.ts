// Parallel tool calls for an agent, as tutorials write them: each in as few lines as do what the text does, mistakes included.

/** Runs tasks, so many at a time: the first way that such texts show. */
export async function parallelLimit<T>(tasks: readonly (() => Promise<T>)[], limit: number): Promise<PromiseSettledResult<T>[]> {
  const results: PromiseSettledResult<T>[] = [];
  const executing: Promise<void>[] = [];
  for (const [index, task] of tasks.entries()) {
    const promise: Promise<void> = task()
      .then((value) => {
        results[index] = { status: 'fulfilled', value };
      })
      .catch((reason: unknown) => {
        results[index] = { status: 'rejected', reason };
      });
    executing.push(promise);
    if (executing.length >= limit) {
      await Promise.race(executing);
      void executing.splice(
        executing.findIndex((p) => p !== promise),
        1,
      );
    }
  }
  await Promise.all(executing);
  return results;
}

/** Moves a limit with the outcomes it is told of. */
export class AdaptiveConcurrency {
  limit = 5;
  #successes = 0;
  #failures = 0;

  onSuccess(): void {
    this.#successes++;
    if (this.#successes > 10 && this.limit < 10) {
      this.limit++;
      this.#successes = 0;
    }
  }

  onFailure(): void {
    this.#failures++;
    if (this.#failures > 2 && this.limit > 1) {
      this.limit--;
      this.#failures = 0;
    }
  }
}

/** Waves of calls. */
export async function* batchExecute<C, R>(
  calls: readonly C[],
  size: number,
  executeTool: (call: C) => Promise<R>,
): AsyncGenerator<PromiseSettledResult<R>[]> {
  for (let i = 0; i < calls.length; i += size) yield await Promise.allSettled(calls.slice(i, i + size).map(executeTool));
}

/** Slots that are waited for. */
export class ConcurrencyLimiter {
  #running = 0;
  readonly #queue: (() => void)[] = [];
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#most) this.#running++;
    else {
      await new Promise<void>((resolve) => {
        this.#queue.push(() => {
          this.#running++;
          resolve();
        });
      });
    }
    try {
      return await work();
    } finally {
      this.#running--;
      this.#queue.shift()?.();
    }
  }
}

/** A race of the work and a timer. */
export function withTimeout<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  return Promise.race([
    work,
    new Promise<never>((_, reject) => {
      setTimeout(() => {
        reject(new Error('Operation timed out'));
      }, timeoutMs);
    }),
  ]);
}

/** A race for each of the calls that are under way already. */
export function batchWithTimeout<T>(work: readonly Promise<T>[], timeoutMs: number): Promise<PromiseSettledResult<T>[]> {
  return Promise.allSettled(work.map((each) => withTimeout(each, timeoutMs)));
}

/** Another attempt after any failure, "with exponential backoff". */
export async function withRetry<T>(work: () => Promise<T>, maxRetries = 3, delayMs = 1000): Promise<T> {
  let lastError: unknown = null;
  for (let i = 0; i < maxRetries; i++) {
    try {
      return await work();
    } catch (error) {
      lastError = error;
      if (i < maxRetries - 1) await new Promise((resolve) => setTimeout(resolve, delayMs * (i + 1)));
    }
  }
  throw lastError;
}

/** Results in two lists. */
export function processResults<T>(results: readonly PromiseSettledResult<T>[]): { successful: T[]; failed: Error[] } {
  const successful: T[] = [];
  const failed: Error[] = [];
  for (const result of results) {
    if (result.status === 'fulfilled') successful.push(result.value);
    else failed.push(result.reason instanceof Error ? result.reason : new Error(String(result.reason)));
  }
  return { successful, failed };
}

/** Results as a model reads them. */
export function toToolResults(calls: readonly { id: string }[], results: readonly PromiseSettledResult<string>[]) {
  return results.map((result, i) => ({
    tool_use_id: calls[i]?.id,
    content: result.status === 'fulfilled' ? result.value : `Error: ${(result.reason as Error).message}`,
    is_error: result.status === 'rejected',
  }));
}

export interface CopiedTool {
  readonly name: string;
  readonly execute: (args: never) => Promise<string>;
}

/** The tool that runs tools. */
export async function batchTool(
  tools: readonly CopiedTool[],
  calls: readonly { readonly tool: string; readonly parameters: unknown }[],
): Promise<string> {
  const results = await Promise.allSettled(
    calls.map(async ({ tool: name, parameters }) => {
      if (name === 'batch') throw new Error(`Tool '${name}' is not allowed in batch`);
      const tool = tools.find((each) => each.name === name);
      if (tool === undefined) throw new Error(`Unknown tool: ${name}`);
      return tool.execute(parameters as never);
    }),
  );
  const lines = results.map((result, i) => {
    const name = String(calls[i]?.tool);
    if (result.status === 'rejected') return `[${name}] ✗ Error: ${(result.reason as Error).message}`;
    return `[${name}] ✓\n${result.value.length > 500 ? `${result.value.slice(0, 500)}...\n[truncated]` : result.value}`;
  });
  return lines.join('\n\n');
}
