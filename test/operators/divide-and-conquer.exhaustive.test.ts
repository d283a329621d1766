import type { Subscription } from 'rxjs';
import { NEVER, of, Subject, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { DivideOptions, Lease } from '../../operators/index.js';
import { classifyError, createBatcher, createLimiter, fixed, robust, SplitLimitError, sequentialSearch } from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';
import { sized } from '../support/deep.js';

/** The failure of one call. */
class CallError extends Error {
  constructor(
    readonly items: readonly number[],
    readonly blame: readonly number[] | undefined,
  ) {
    super('a bad item');
  }
}

type Blame = (call: readonly number[], isBad: (item: number) => boolean) => readonly number[] | undefined;

const blames: Readonly<Record<string, Blame>> = {
  none: () => undefined,
  right: (call, isBad) => [call.findIndex(isBad)],
  wrong: (call, isBad) => [
    Math.max(
      0,
      call.findIndex((item) => !isBad(item)),
    ),
  ],
  doubled: (call, isBad) => [call.findIndex(isBad), call.findIndex(isBad)],
  'out of range': (call) => [call.length],
};

interface Given {
  readonly size: number;
  readonly bad: ReadonlySet<number>;
  readonly blame: Blame;
  readonly divide: DivideOptions;
  /** The item that leaves, and the call (from 1) during which it leaves. */
  readonly leaving?: { readonly item: number; readonly call: number };
}

interface Caller {
  readonly values: number[];
  readonly errors: unknown[];
}

/** One batch through the engine, every item with a caller of its own. All of it happens at once. */
function execute({ size, bad, blame, divide, leaving }: Given): { readonly callers: readonly Caller[]; readonly calls: number } {
  const isBad = (item: number): boolean => bad.has(item);
  const callers: Caller[] = Array.from({ length: size }, () => ({ values: [], errors: [] }));
  const subscriptions = new Map<number, Subscription>();
  let calls = 0;
  const batcher = createBatcher<number, number>(
    (items) => {
      calls++;
      if (calls === leaving?.call) subscriptions.get(leaving.item)?.unsubscribe();
      return items.some(isBad) ? throwError(() => new CallError(items, blame(items, isBad))) : of(items.map((item) => item * 10));
    },
    {
      maxSize: size,
      scheduler: atOnce(),
      window: fixed(1000),
      repair: robust({ divide }),
      classify: (error) => ({ class: 'itemFault', blame: (error as CallError).blame ?? [] }),
    },
  );
  for (const [item, { values, errors }] of callers.entries()) {
    const subscription = batcher.load(item).subscribe({
      next: (value) => values.push(value),
      error: (error: unknown) => errors.push(error),
    });
    subscriptions.set(item, subscription);
  }
  batcher.close();
  return { callers, calls };
}

/** Every non-empty subset of 0 to size - 1. */
function* badSets(size: number): Generator<Set<number>> {
  for (let bits = 1; bits < 1 << size; bits++)
    yield new Set(Array.from({ length: size }, (_, i) => i).filter((item) => (bits >> item) & 1));
}

/** Checks what every caller must see. True when an item was given up. */
function check({ bad, blame, leaving }: Given, { callers }: ReturnType<typeof execute>): boolean {
  let givenUp = false;
  for (const [item, { values, errors }] of callers.entries()) {
    const heard = values.length + errors.length;
    if (item === leaving?.item && heard === 0) continue;
    if (heard !== 1) throw new Error(`caller ${String(item)} heard ${String(heard)} answers`);
    const [error] = errors;
    if (error instanceof SplitLimitError) givenUp = true;
    else if (error instanceof CallError) {
      const isNamed = error.blame?.length === 1 && error.items[error.blame[0]!] === item;
      if (!isNamed && error.items.join() !== String(item)) throw new Error(`caller ${String(item)} got the error of ${error.items.join()}`);
      if (!bad.has(item) && blame !== blames['wrong']) throw new Error(`good item ${String(item)} is rejected`);
    } else if (errors.length > 0) throw error;
    else if (bad.has(item) || values[0] !== item * 10) throw new Error(`item ${String(item)} got ${String(values[0])}`);
  }
  return givenUp;
}

/** Calls of a parallel split, counted round by round: a failed call has its bad item named, or is cut into `factor` parts. */
function parallelCalls({ size, bad, blame }: Given, factor: number): number {
  const isBad = (item: number): boolean => bad.has(item);
  const queue = [Array.from({ length: size }, (_, i) => i)];
  let calls = 0;
  let blameRounds = 3;
  for (let call = queue.shift(); call; call = queue.shift()) {
    calls++;
    if (!call.some(isBad)) continue;
    const [named, ...more] = blame(call, isBad) ?? [];
    const isTrusted = named !== undefined && more.length === 0 && named < call.length;
    const rest = isTrusted ? call.filter((_, at) => at !== named) : call.length > 1 ? call : [];
    if (rest.length === 0) continue;
    if (isTrusted && blameRounds-- > 0) queue.push(rest);
    else queue.push(...parts(rest, Math.min(factor, rest.length)));
  }
  return calls;
}

/** Contiguous parts as equal as can be: every item asks which part it belongs to. */
function parts(items: readonly number[], wanted: number): number[][] {
  const out: number[][] = Array.from({ length: wanted }, () => []);
  for (const [at, item] of items.entries()) out[Math.ceil(((at + 1) * wanted) / items.length) - 1]!.push(item);
  return out;
}

/** Most items in a batch, of which every subset is bad once. */
const LARGEST = sized(5, 7);
const LARGEST_LEFT = sized(3, 5);

describe('a search', () => {
  const searching = () => {
    const limiter = createLimiter({ concurrency: 1 });
    const sent: string[] = [];
    const first = new Subject<never>();
    const answers: number[] = [];
    const batcher = createBatcher<number, number>(
      (items) => {
        sent.push(items.join(''));
        if (sent.length === 1) return first;
        return items.includes(0) ? NEVER : of(items);
      },
      {
        maxSize: 4,
        scheduler: atOnce(),
        window: fixed(1000),
        limiter,
        classify: classifyError,
        repair: robust({ divide: { strategy: sequentialSearch() } }),
      },
    );
    const loads = [0, 1, 2, 3].map((item) => batcher.load(item).subscribe((value) => answers.push(value)));
    const fail = (): void => {
      first.error(Object.assign(new Error('no'), { status: 400 }));
    };
    const leave = (): void => {
      for (const load of loads.slice(0, 2)) load.unsubscribe();
    };
    return { limiter, sent, answers, fail, leave };
  };

  it('continues when every item has left the part under way', async () => {
    const { sent, answers, fail, leave } = searching();
    fail();
    expect(sent).toEqual(['0123', '01']);
    leave();
    // A cancelled call grants the next one at the end of the frame.
    await new Promise((resolve) => setTimeout(resolve));
    expect(sent).toEqual(['0123', '01', '23']);
    expect(answers).toEqual([2, 3]);
  });

  it('continues when every item has left the part that waits for a permit', () => {
    const { limiter, sent, answers, fail, leave } = searching();
    const leases: Lease[] = [];
    limiter.acquire().subscribe((lease) => leases.push(lease));
    fail();
    expect([sent, leases.length]).toEqual([['0123'], 1]);
    leave();
    leases[0]?.release();
    expect(sent).toEqual(['0123', '23']);
    expect(answers).toEqual([2, 3]);
  });
});

const strategies: readonly [string, DivideOptions, number | undefined][] = [
  ['parallel, factor 2', { parts: 2 }, 2],
  ['parallel, factor 4', { parts: 4 }, 4],
  ['parallel, factor Infinity', { parts: Infinity }, Infinity],
  ['sequential', { strategy: sequentialSearch() }, undefined],
];

describe.each(strategies)('%s', (_name, divide, factor) => {
  it.each(Object.entries(blames))('answers every caller once, whatever is bad in a small batch; blame: %s', (_blame, blame) => {
    for (let size = 1; size <= LARGEST; size++) {
      for (const bad of badSets(size)) {
        const given: Given = { size, bad, blame, divide };
        const outcome = execute(given);
        expect(check(given, outcome)).toBe(false);
        expect(outcome.calls).toBeLessThanOrEqual(2 * size);
        if (factor !== undefined) expect(outcome.calls).toBe(parallelCalls(given, factor));
      }
    }
  });

  it.each(['none', 'right', 'wrong'])('lets any item leave during any call; blame: %s', (name) => {
    let left = 0;
    for (let size = 2; size <= LARGEST_LEFT; size++) {
      for (const bad of badSets(size)) {
        for (let item = 0; item < size; item++) {
          for (let call = 1; call <= 2 * size; call++) {
            const given: Given = { size, bad, blame: blames[name]!, divide, leaving: { item, call } };
            const outcome = execute(given);
            expect(check(given, outcome)).toBe(false);
            if (outcome.callers[item]!.values.length + outcome.callers[item]!.errors.length === 0) left++;
            if (outcome.calls < call) break;
          }
        }
      }
    }
    expect(left).toBeGreaterThan(sized(5, 100));
  });

  it('keeps to every budget, and gives up no item that it can afford to try', () => {
    for (let size = 1; size <= LARGEST_LEFT; size++) {
      for (const bad of badSets(size)) {
        for (let maxCalls = 1; maxCalls <= 2 * size; maxCalls++) {
          const given: Given = { size, bad, blame: blames['none']!, divide: { ...divide, maxCalls } };
          const outcome = execute(given);
          const givenUp = check(given, outcome);
          expect(outcome.calls).toBeLessThanOrEqual(maxCalls);
          const enough = factor === undefined ? size + 1 : parallelCalls(given, factor);
          if (givenUp) expect(maxCalls).toBeLessThan(enough);
        }
      }
    }
  });
});
