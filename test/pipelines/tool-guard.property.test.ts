import { concat, map, NEVER, Observable, of, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { VirtualClock } from '../../marbles/virtual.js';
import { virtualTime } from '../../marbles/virtual.js';
import { createBatchTool } from '../../src/edge/batch-tool.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { Tool, ToolCall, ToolGuard, ToolOutput, ToolResult, ToolRun } from '../../src/pipelines/tools/tool-types.js';
import { sized } from '../support/deep.js';
import { repeatable } from '../traps/tools.js';
import { busy } from './tool-kit.js';

/** A runner that is wrong on purpose: without a guard, or with attempts it does not know of. */
type Plant = 'none' | 'noGuard' | 'hiddenRetry';

/** One question to the guard. */
interface Asked {
  readonly input: unknown;
  /** The arguments as they were then. */
  readonly text: string;
  allowedAt: number | undefined;
  isUsed: boolean;
}

/** What happened in one world, for the world to be worth looking at. */
const NOTHING = { dispatches: 0, retries: 0, refused: 0, timeouts: 0, cancelled: 0, left: 0, inner: 0, ok: 0 };
type Tally = { -readonly [K in keyof typeof NOTHING]: number };

const CONCURRENCY = 3;
const parameters = z.object({ token: z.string(), list: z.array(z.number()) });

/** One seeded interleaving: requests, batches, attempts, time limits, people who leave. Answers what was wrong. */
function world(seed: number, plant: Plant, tally: Tally): string[] {
  const wrong: string[] = [];
  virtualTime((clock) => {
    new World(seed, plant, tally, wrong, clock).run();
  });
  return wrong;
}

class World {
  readonly #random: () => number;
  readonly #asked = new Map<string, Asked>();
  readonly #gone = new Set<string>();
  /** Arguments as the callers hold them, and may change them at any time. */
  readonly #inputs: { list: number[]; token: string }[] = [];
  #running = 0;
  #runningB = 0;
  #calls = 0;

  constructor(
    seed: number,
    readonly plant: Plant,
    readonly tally: Tally,
    readonly wrong: string[],
    readonly clock: VirtualClock,
  ) {
    this.#random = repeatable(seed * 7919 + 1);
    // The first numbers of neighbouring seeds are alike.
    for (let i = 0; i < 5; i++) this.#random();
  }

  run(): void {
    const tools = [
      this.#tool('a', { readOnly: true }),
      this.#tool('b', { concurrency: 1 }),
      this.#tool('c', { retry: { maxAttempts: 4, delayMs: 3 } }),
      createBatchTool({ timeoutMs: this.#oneOf(Infinity, 25) }),
    ];
    const runner = createToolRunner({
      tools,
      ...(this.plant !== 'noGuard' && { guard: this.#guard }),
      concurrency: CONCURRENCY,
      timeoutMs: 20,
      retry: { maxAttempts: 3, delayMs: 5 },
      random: this.#random,
    });
    const checks: (() => void)[] = [];
    for (let request = 0; request < 2 + this.#below(4); request++) {
      this.clock.advance(this.#below(15));
      checks.push(this.#request(runner, `r${String(request)}`));
    }
    for (let i = 0; i < 3; i++) {
      this.clock.advance(this.#below(10));
      for (const input of this.#inputs) input.list.push(666);
    }
    if (this.#below(10) === 0) runner.close();
    this.clock.flush();
    for (const check of checks) check();
    const { open, queued, executing, backingOff } = runner.snapshot();
    if (open + queued + executing + backingOff > 0) this.wrong.push(`left behind: ${JSON.stringify(runner.snapshot())}`);
    runner.close();
  }

  #request(runner: ReturnType<typeof createToolRunner>, name: string): () => void {
    const calls = Array.from({ length: 1 + this.#below(6) }, () => this.#call(name));
    const ids = calls.map(({ id }) => id);
    const stop = new AbortController();
    const deadlineMs = this.#oneOf(Infinity, Infinity, 30);
    const results: ToolResult[] = [];
    let hasLeft = false;
    let ended = 0;
    const subscription = runner.run(calls, { signal: stop.signal, deadlineMs }).subscribe({
      next: (result) => {
        if (hasLeft) this.wrong.push(`${name}: a result after leaving`);
        results.push(result);
        this.#look(result);
      },
      complete: () => ended++,
    });
    const when = 1 + this.#below(60);
    const how = this.#below(4);
    if (how === 0) {
      this.#later(when, () => {
        for (const id of ids) this.#gone.add(id);
        stop.abort();
      });
    } else if (how === 1) {
      this.#later(when, () => {
        if (ended > 0) return;
        hasLeft = true;
        this.tally.left++;
        for (const id of ids) this.#gone.add(id);
        subscription.unsubscribe();
      });
    }
    return () => {
      const seen = results.map(({ tool_use_id }) => tool_use_id);
      if (new Set(seen).size !== seen.length) this.wrong.push(`${name}: a call has two results`);
      if (!hasLeft && (ended !== 1 || seen.toSorted().join() !== ids.toSorted().join())) this.wrong.push(`${name}: a call has no result`);
    };
  }

  #call(request: string): ToolCall {
    const id = `${request}.${String(this.#calls++)}`;
    if (this.#below(4) > 0) return { id, name: this.#oneOf('a', 'b', 'c'), input: this.#input(id) };
    const tool_calls = Array.from({ length: 1 + this.#below(4) }, (_, i) => ({
      tool: this.#oneOf('a', 'b', 'c', 'batch'),
      parameters: this.#input(`${id}.${String(i + 1)}`),
    }));
    return { id, name: 'batch', input: { tool_calls } };
  }

  #input(token: string): { token: string; list: number[] } {
    const input = { token, list: [this.#below(100)] };
    this.#inputs.push(input);
    return input;
  }

  readonly #guard: ToolGuard = (call, { attempt }) => {
    const { id, input } = call;
    const key = `${id} attempt ${String(attempt)}`;
    if (this.#asked.has(key)) this.wrong.push(`${key}: asked twice`);
    const asked: Asked = { input, text: JSON.stringify(input), allowedAt: undefined, isUsed: false };
    this.#asked.set(key, asked);
    // A guard that would change what it judges.
    if (Reflect.set(call, 'input', {}) || Reflect.set(Object(input) as object, 'token', 'mine'))
      this.wrong.push(`${key}: could be changed`);
    const allow = (): boolean => {
      asked.allowedAt = this.clock.now();
      return true;
    };
    switch (this.#below(12)) {
      case 0:
        return false;
      case 1:
        return 'not now';
      case 2:
        throw new Error('the guard broke');
      case 3:
        return NEVER;
      case 4:
        return timer(this.#below(30)).pipe(map(() => false));
      case 5:
      case 6:
        return timer(this.#below(30)).pipe(map(allow));
      case 7:
        return of(false, true).pipe(map((answer) => answer && allow()));
      default:
        return allow();
    }
  };

  #tool(name: string, options: Partial<Tool>): Tool {
    return {
      name,
      description: name,
      parameters,
      execute: (args, { id, attempt, signal }) => {
        this.#dispatched(id, attempt, args, signal);
        const { token } = args as z.infer<typeof parameters>;
        if (this.plant === 'hiddenRetry' && attempt === 1) this.#dispatched(id, 2, args, signal);
        return this.#counted(name, this.#answer(token));
      },
      ...options,
    };
  }

  /** The one thing this is all about. */
  #dispatched(id: string, attempt: number, args: unknown, signal: AbortSignal): void {
    const key = `${id} attempt ${String(attempt)}`;
    const asked = this.#asked.get(key);
    this.tally.dispatches++;
    if (attempt > 1) this.tally.retries++;
    if (id.split('.').length > 2) this.tally.inner++;
    if (asked?.allowedAt === undefined) this.wrong.push(`${key}: not allowed`);
    else if (asked.allowedAt !== this.clock.now()) this.wrong.push(`${key}: allowed before its time`);
    else if (asked.isUsed) this.wrong.push(`${key}: allowed once, made twice`);
    if (asked) asked.isUsed = true;
    if (asked && (asked.input !== args || asked.text !== JSON.stringify(args))) this.wrong.push(`${key}: other arguments`);
    if ((args as { list: number[] }).list.includes(666)) this.wrong.push(`${key}: the caller changed the arguments`);
    if (this.#gone.has(id) || signal.aborted) this.wrong.push(`${key}: its caller has left`);
  }

  #answer(token: string): ToolOutput<string> {
    const ms = this.#below(25);
    switch (this.#below(8)) {
      case 0:
        return token;
      case 1:
        throw new Error('broke at once');
      case 2:
        return throwError(() => busy());
      case 3:
      case 4:
        return concat(
          timer(ms),
          throwError(() => busy()),
        ) as Observable<never>;
      case 5:
        return NEVER;
      default:
        return timer(ms).pipe(map(() => token));
    }
  }

  /** The same answer, with its slot counted. */
  #counted(name: string, answer: ToolOutput<string>): ToolOutput<string> {
    if (typeof answer === 'string') return answer;
    return new Observable((subscriber) => {
      this.#running++;
      if (name === 'b') this.#runningB++;
      if (this.#running > CONCURRENCY || this.#runningB > 1) this.wrong.push(`${name}: above the limit`);
      let isOver = false;
      const end = (): void => {
        if (isOver) return;
        isOver = true;
        this.#running--;
        if (name === 'b') this.#runningB--;
      };
      // Before the result goes out: the next call starts in the slot before this one is torn down.
      subscriber.add(
        (answer as Observable<string>).subscribe({
          next: (value) => {
            subscriber.next(value);
          },
          error: (error: unknown) => {
            end();
            subscriber.error(error);
          },
          complete: () => {
            end();
            subscriber.complete();
          },
        }),
      );
      return end;
    });
  }

  #look(result: ToolResult): void {
    if (result.is_error) {
      if (result.error.code === 'permission_denied') this.tally.refused++;
      if (result.error.code === 'timeout') this.tally.timeouts++;
      if (result.error.code === 'cancelled') this.tally.cancelled++;
      return;
    }
    this.tally.ok++;
    if (result.name !== 'batch') {
      if (result.value !== result.tool_use_id) this.wrong.push(`${result.tool_use_id}: has the result of ${String(result.value)}`);
      return;
    }
    const { results } = result.value as ToolRun;
    for (const [i, inner] of results.entries()) {
      if (inner.tool_use_id !== `${result.tool_use_id}.${String(i + 1)}`) this.wrong.push(`${result.tool_use_id}: results out of order`);
      this.#look(inner);
    }
  }

  #later(ms: number, action: () => void): void {
    timer(ms).subscribe(action);
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }

  #oneOf<V>(...values: readonly V[]): V {
    return values[this.#below(values.length)] as V;
  }
}

/** `npm run test:deep` has a thousand. */
const SEEDS = sized(50, 1000);

describe(`${String(SEEDS)} interleavings of cancelled calls, attempts, batches and time limits`, () => {
  it('have no call without a check of the same id and the same arguments, and one result for each call', { timeout: 120_000 }, () => {
    const tally: Tally = { ...NOTHING };
    for (let seed = 0; seed < SEEDS; seed++) expect({ seed, wrong: world(seed, 'none', tally) }).toEqual({ seed, wrong: [] });
    // All of it really happened.
    for (const [what, count] of Object.entries(tally)) expect({ what, isEnough: count >= SEEDS / 5 }).toEqual({ what, isEnough: true });
  });

  it.each(['noGuard', 'hiddenRetry'] as const)('notice a runner with %s', (plant) => {
    const wrong = Array.from({ length: 20 }, (_, seed) => world(seed, plant, { ...NOTHING }));
    expect(wrong.filter((list) => list.length > 0).length).toBeGreaterThan(15);
  });
});
