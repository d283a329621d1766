import { setTimeout as sleep } from 'node:timers/promises';

/** What a call tells the server to do. */
export interface Orders {
  /** Names the call. */
  readonly id?: string;
  /** Answer only when `open` is called. */
  readonly hold?: boolean;
  /** Never answer, so many times; then answer. */
  readonly silentTimes?: number;
  /** Report progress so many times, with so long between, in ms, before the answer. */
  readonly steps?: number;
  readonly stepMs?: number;
  /** Fail with this code of JSON-RPC, so many times; then answer. */
  readonly code?: number;
  readonly failTimes?: number;
  /** Answer with `isError`. */
  readonly isError?: boolean;
}

/** A call as the server sees it. */
export interface Seen {
  readonly tool: string;
  readonly id: string | undefined;
  aborted: boolean;
  isOver: boolean;
}

export interface Told {
  readonly signal: AbortSignal;
  progress(progress: number): Promise<void>;
  /** Makes an error of JSON-RPC. */
  fail(code: number, message: string): Error;
}

interface ListedTool {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: { readonly type: 'object' };
  readonly annotations?: { readonly readOnlyHint?: boolean; readonly idempotentHint?: boolean };
}

const inputSchema = { type: 'object' } as const;

/** What servers of all versions have in common: their tools, and what those do. */
export class McpBrain {
  /** In the order of their arrival. */
  readonly calls: Seen[] = [];
  lists = 0;
  tools: ListedTool[] = [
    { name: 'look', description: 'Looks.', inputSchema, annotations: { readOnlyHint: true } },
    { name: 'put', inputSchema, annotations: { idempotentHint: true } },
    { name: 'write', inputSchema },
    { name: 'peek', inputSchema, annotations: { readOnlyHint: true } },
  ];
  readonly #held = new Set<() => void>();

  get executing(): readonly Seen[] {
    return this.calls.filter(({ isOver }) => !isOver);
  }

  /** Calls of that name. */
  seen(id: string): readonly Seen[] {
    return this.calls.filter((call) => call.id === id);
  }

  /** Lets held calls answer: all of them, or the oldest few. */
  open(count = Infinity): void {
    for (const go of [...this.#held].slice(0, count)) go();
  }

  /** Two tools a page. */
  list(cursor: string | undefined) {
    this.lists++;
    const start = Number(cursor ?? 0);
    const nextCursor = start + 2 < this.tools.length ? { nextCursor: String(start + 2) } : {};
    return { tools: this.tools.slice(start, start + 2), ...nextCursor };
  }

  async call(tool: string, orders: Orders, told: Told) {
    const { id, hold, silentTimes = 0, steps = 0, stepMs = 0, code, failTimes = Infinity, isError = false } = orders;
    const seen: Seen = { tool, id, aborted: false, isOver: false };
    this.calls.push(seen);
    const attempt = id === undefined ? 1 : this.seen(id).length;
    told.signal.addEventListener('abort', () => {
      seen.aborted = !seen.isOver;
    });
    try {
      if (attempt <= silentTimes) await aborted(told.signal);
      if (hold) await this.#opened(told.signal);
      for (let step = 1; step <= steps; step++) {
        await sleep(stepMs, undefined, { signal: told.signal });
        await told.progress(step);
      }
      if (code !== undefined && attempt <= failTimes) throw told.fail(code, `no ${String(id)}`);
      return { content: [{ type: 'text' as const, text: `${tool} ${String(id)}` }], isError };
    } finally {
      seen.isOver = true;
    }
  }

  async #opened(signal: AbortSignal): Promise<void> {
    let go: () => void = () => undefined;
    const opened = new Promise<void>((resolve) => {
      go = resolve;
      this.#held.add(resolve);
    });
    try {
      await Promise.race([opened, aborted(signal)]);
    } finally {
      this.#held.delete(go);
    }
  }
}

/** Rejects when the signal aborts. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => {
      reject(new Error('aborted'));
    };
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop);
  });
}
