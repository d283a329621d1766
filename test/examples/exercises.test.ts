import { readFileSync } from 'node:fs';
import type { Observable } from 'rxjs';
import { from, interval, map, mergeMap, of, Subject, take, tap, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { specs } from '../../examples/exercises/drawings.js';
import { byAge, byCount, bySilence, byTime } from '../../examples/exercises/q1-predict-the-batches.js';
import { analyse, readAloud, sendAudit } from '../../examples/exercises/q2-latest-sample-or-queue.js';
import { withBulkhead, withMergeMap } from '../../examples/exercises/q3-one-sandbox.js';
import { batchesWithScan, smartBatches, smartCalls } from '../../examples/exercises/q4-smart-batcher.js';
import { halvesWithSwitchMap, shareCalls } from '../../examples/exercises/q5-one-bad-prompt.js';
import { answerConfirmed, answerNewest } from '../../examples/exercises/q6-take-back-a-guess.js';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { seededRandom } from '../../marbles/random.js';
import { renderPage } from '../../marbles/render-text.js';
import { runSpec } from '../../marbles/run.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { DivideOptions } from '../../operators/index.js';
import { sequentialSearch } from '../../operators/index.js';
import { assertEqual, drawingOf } from '../support/marble-files.js';

describe('the drawings of the exercises', () => {
  it('have titles that are their own', () => {
    expect(new Set(specs.map(({ title }) => title)).size).toBe(specs.length);
  });

  it.each(specs)('$title', (spec) => {
    const { result } = runSpec(spec, assertEqual);
    expect(result.name).toBe('result');
  });

  it('look as drawn', async () => {
    const drawings = specs.map((spec) => ({ title: spec.title, text: drawingOf(spec) }));
    await expect(renderPage('examples/exercises/drawings.ts', drawings)).toMatchFileSnapshot('../../marbles/diagrams/exercises.txt');
  });
});

/** What is emitted and when, until `untilMs`. */
function timed<T>(make: () => Observable<T>, untilMs = 1000): { readonly at: number; readonly value: T }[] {
  return virtualTime(({ advance, now }) => {
    const seen: { at: number; value: T }[] = [];
    const subscription = make().subscribe((value) => seen.push({ at: now(), value }));
    advance(untilMs);
    subscription.unsubscribe();
    return seen;
  });
}

/** Each item at its own ms. */
const arriving = <T>(items: readonly (readonly [atMs: number, item: T])[]): Observable<T> =>
  from(items).pipe(mergeMap(([atMs, item]) => timer(atMs).pipe(map(() => item))));

const shown = (seen: readonly { readonly at: number; readonly value: readonly string[] }[]): string[] =>
  seen.map(({ at, value }) => `${at}: ${value.join('')}`);

describe('exercise 1: predict the batches', () => {
  const events = [
    [0, 'A'],
    [10, 'B'],
    [40, 'C'],
    [60, 'D'],
    [90, 'E'],
  ] as const; // prettier-ignore
  const open = (): Observable<string> => arriving([...events, [10_000, '']]);

  it('bufferTime emits the two batches, and then an empty one every 50 ms for ever', () => {
    expect(shown(timed(() => byTime(open()), 300))).toEqual(['50: ABC', '100: DE', '150: ', '200: ', '250: ', '300: ']);
  });

  it('bufferCount keeps E until a partner or the end comes', () => {
    expect(shown(timed(() => byCount(open())))).toEqual(['10: AB', '60: CD']);
    expect(shown(timed(() => byCount(arriving(events))))).toEqual(['10: AB', '60: CD', '90: E']);
  });

  it('a buffer that silence closes keeps all five until 120 ms; at the end of the source it does not wait', () => {
    expect(shown(timed(() => bySilence(open())))).toEqual(['120: ABCDE']);
    expect(shown(timed(() => bySilence(arriving(events))))).toEqual(['90: ABCDE']);
  });

  it('hangs on two ties: C and E come in the very millisecond in which the silence of 30 ms would be over', () => {
    const later = [
      [0, 'A'],
      [10, 'B'],
      [41, 'C'],
      [60, 'D'],
      [91, 'E'],
      [10_000, ''],
    ] as const; // prettier-ignore
    expect(shown(timed(() => bySilence(arriving(later))))).toEqual(['40: AB', '90: CD', '121: E']);
  });

  it('batch counts from the first item of each batch, and is silent when there is nothing', () => {
    expect(shown(timed(() => byAge(open())))).toEqual(['50: ABC', '110: DE']);
  });
});

describe('exercise 2: latest, sample or queue', () => {
  it('four quick presses move on by four sentences, and only the last one is read to its end', () => {
    const stopped: number[] = [];
    const read = (sentence: number, signal: AbortSignal): Observable<string> => {
      signal.addEventListener('abort', () => stopped.push(sentence));
      return timer(500).pipe(map(() => `sentence ${sentence}`));
    };
    const presses = arriving([
      [0, 'next'],
      [100, 'next'],
      [150, 'next'],
      [200, 'next'],
    ]); // prettier-ignore
    expect(timed(() => readAloud(presses, read))).toEqual([{ at: 700, value: 'sentence 4' }]);
    expect(stopped).toEqual([1, 2, 3]);
  });

  it('a hundred prices a second and an analysis every 5 s: four analyses in 20 s, each of the newest price', () => {
    const prices = interval(10);
    const seen = timed(() => analyse(prices, 5000, (price) => of(`price ${price}`)), 20_000);
    expect(seen.map(({ at, value }) => `${at}: ${value}`)).toEqual([
      '5000: price 499',
      '10000: price 999',
      '15000: price 1499',
      '20000: price 1999',
    ]);
  });

  it('an analysis that takes longer than the pace is followed by one of the newest price, with no line behind it', () => {
    const prices = interval(10).pipe(take(5999));
    const slow = (price: number): Observable<string> => timer(12_000).pipe(map(() => `price ${price}`));
    const seen = timed(() => analyse(prices, 5000, slow), 100_000);
    expect(seen.map(({ value }) => value)).toEqual(['price 499', 'price 1499', 'price 2499', 'price 3999', 'price 4999', 'price 5499']);
  });

  const outage = (received: string[], untilMs: number) => (now: () => number) => (lines: readonly string[]) =>
    timer(20).pipe(
      map(() => {
        if (now() < untilMs) throw new Error('the network is gone');
        received.push(...lines);
      }),
    );

  it('a minute without a network: all 800 lines arrive once, in their order', () => {
    const received: string[] = [];
    const ended = virtualTime(({ flush, now }) => {
      let end = '';
      const lines = interval(100).pipe(
        take(800),
        map((index) => `${index}`),
      );
      sendAudit(lines, outage(received, 60_000)(now)).subscribe({ complete: () => (end = `complete at ${now()} ms`) });
      flush();
      return end;
    });
    expect(received).toEqual(Array.from({ length: 800 }, (_, index) => String(index)));
    expect(ended).toBe('complete at 80020 ms');
  });

  it('a queue that is full says so', () => {
    const failure = virtualTime(({ flush, now }) => {
      let code: unknown;
      const lines = interval(100).pipe(
        take(800),
        map((index) => `${index}`),
      );
      sendAudit(lines, outage([], 60_000)(now), 5).subscribe({ error: (error: unknown) => (code = (error as { code: unknown }).code) });
      flush();
      return code;
    });
    expect(failure).toBe('FLOW_OVERFLOW');
  });
});

describe('exercise 3: one sandbox', () => {
  it.each([
    ['mergeMap', withMergeMap],
    ['bulkheadMap', withBulkhead],
  ] as const)('%s runs three blocks one after the other, without an error', (_name, run) => {
    // prettier-ignore
    const running = { now: 0, most: 0 };
    const execute = (block: string): Observable<string> =>
      timer(1000).pipe(
        tap({ subscribe: () => (running.most = Math.max(running.most, ++running.now)), finalize: () => running.now-- }),
        map(() => block),
      );
    const seen: { readonly at: number }[] = timed<unknown>(() => run(of('a', 'b', 'c'), execute), 10_000);
    expect(seen.map(({ at }) => at)).toEqual([1000, 2000, 3000]);
    expect(running).toEqual({ now: 0, most: 1 });
  });

  it('a block that hangs is stopped after 30 s under bulkheadMap, and the next one runs', () => {
    const execute = (block: string): Observable<string> => timer(block === 'hangs' ? 1e9 : 1).pipe(map(() => block));
    const seen = timed(() => withBulkhead(of('hangs', 'b'), execute), 60_000);
    expect(seen.map(({ at, value }) => `${at}: ${value.input} ${value.status}`)).toEqual(['30000: hangs rejected', '30001: b fulfilled']);
  });
});

describe('exercise 4: the smart batcher', () => {
  const tokensOf = (text: string): number => text.length;

  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'keeps to all three limits, loses nothing, and sends no batch that the next could have joined (seed %i)',
    (seed) => {
      const random = seededRandom(seed);
      let clock = 0;
      const arrivals = Array.from({ length: 400 }, () => {
        clock += Math.floor(random() ** 3 * 120);
        return [clock, 'x'.repeat(1 + Math.floor(random() ** 4 * 9000))] as const;
      });
      const sent = timed(() => smartBatches(arriving(arrivals), tokensOf), clock + 1000);
      expect(sent.flatMap(({ value }) => value)).toEqual(arrivals.map(([, text]) => text));
      let first = 0;
      const batches = sent.map(({ at, value }) => {
        const batch = { sentAt: at, size: value.length, tokens: value.join('').length, firstAt: arrivals[first]![0] };
        first += value.length;
        return batch;
      });
      for (const [index, { sentAt, size, tokens, firstAt }] of batches.entries()) {
        expect(size).toBeLessThanOrEqual(20);
        expect(tokens <= 8192 || size === 1).toBe(true);
        expect(sentAt - firstAt).toBeLessThanOrEqual(100);
        const next = batches[index + 1];
        if (next === undefined) continue;
        const firstOfNext = arrivals[batches.slice(0, index + 1).reduce((sum, batch) => sum + batch.size, 0)]![1].length;
        const couldTakeIt = size < 20 && tokens + firstOfNext <= 8192 && tokens < 8192 && next.firstAt - firstAt <= 100;
        expect(couldTakeIt).toBe(false);
      }
    },
  );

  it('the hint at its word sends 19, keeps the last texts for ever, and makes an empty batch of a text that is too heavy', () => {
    const texts = (count: number): string[] => Array.from({ length: count }, () => 'text');
    const sizes = (items: readonly string[]): number[] =>
      timed(() => batchesWithScan(from(items), tokensOf)).flatMap(({ value }) => (value.length > 0 ? [value.length] : []));
    expect(sizes(texts(20))).toEqual([19]);
    expect(sizes(texts(3))).toEqual([]);
    expect(timed(() => smartBatches(from(texts(20)), tokensOf)).map(({ value }) => value.length)).toEqual([20]);
    expect(timed(() => smartBatches(from(texts(3)), tokensOf)).map(({ value }) => value.length)).toEqual([3]);
    const seen: number[] = [];
    batchesWithScan(of('x'.repeat(9000), 'text'), tokensOf).subscribe((sent) => seen.push(sent.length));
    expect(seen).toEqual([0, 1]);
  });

  it('makes a third of the calls when they are slower than the batches come', () => {
    const load = (): Observable<string> =>
      interval(26).pipe(
        take(400),
        map((index) => `${index}`),
      );
    const calls = (run: (model: ReturnType<typeof fakeProvider<string, number[]>>) => Observable<unknown>): number => {
      const model = fakeProvider<string, number[]>({ answer: () => [1], latencyMs: 1500 });
      timed(() => run(model), 60_000);
      expect(model.calls.reduce((sum, { input }) => sum + input.length, 0)).toBe(400);
      return model.calls.length;
    };
    const open = calls((model) => smartBatches(load(), tokensOf).pipe(mergeMap((texts) => model.work(texts), 4)));
    const gated = calls((model) => smartCalls(load(), tokensOf, model.work));
    expect([open, gated]).toEqual([100, 30]);
  });
});

describe('exercise 5: one bad prompt', () => {
  const PROMPTS = Array.from('ABCDEFGHIJ');
  const answers = (divide?: DivideOptions, namesPoison = false) => {
    const model = fakeProvider({ answer: (prompt: string) => `to ${prompt}`, poisoned: ['F'], namesPoison, latencyMs: 100 });
    const batcher = shareCalls(model.work, divide);
    const seen = timed(
      () => from(PROMPTS).pipe(mergeMap((prompt) => batcher.loadSettled(prompt).pipe(map((settled) => ({ prompt, settled }))))),
      60_000,
    );
    return { calls: model.calls.length, seen, lastAt: seen.at(-1)?.at };
  };

  it('answers nine users with their own answers and one with the error', () => {
    const { seen } = answers();
    const told = seen.map(
      ({ value: { prompt, settled } }) => `${prompt}: ${settled.status === 'fulfilled' ? settled.value : (settled.reason as Error).name}`,
    );
    expect(told.sort()).toEqual(PROMPTS.map((prompt) => (prompt === 'F' ? 'F: FakeProviderError' : `${prompt}: to ${prompt}`)));
  });

  const page = readFileSync(new URL('../../docs/exercises.md', import.meta.url), 'utf8');

  it.each([
    ['4 parts at once, the default', undefined, false, 7, 3],
    ['2 parts at once: `{ parts: 2 }`', { parts: 2 }, false, 7, 4],
    ['every prompt alone: `{ parts: Infinity }`', { parts: Infinity }, false, 11, 4],
    ['one half after the other: `{ strategy: sequentialSearch() }`', { strategy: sequentialSearch() }, false, 5, 5],
    ['the error names the prompt (`input[5] is invalid`)', undefined, true, 2, 2],
  ] as const)('%s: as many calls and rounds as the page says', (how, divide, namesPoison, calls, rounds) => {
    const outcome = answers(divide, namesPoison);
    expect({ calls: outcome.calls, lastAt: outcome.lastAt }).toEqual({ calls, lastAt: 100 * rounds });
    expect(outcome.seen.filter(({ value }) => value.settled.status === 'fulfilled')).toHaveLength(9);
    expect(page).toContain(`\n| ${how} | ${calls} | ${rounds} |\n`);
  });

  it('loses eight of ten when the halves are run through switchMap', () => {
    const model = fakeProvider({ answer: (prompt: string) => `to ${prompt}`, poisoned: ['F'], namesPoison: false, latencyMs: 100 });
    const [answer, ...more] = timed(() => halvesWithSwitchMap((prompts) => model.work(prompts), PROMPTS), 60_000);
    expect(answer?.value).toEqual(['to I', 'to J']);
    expect(more).toEqual([]);
  });
});

describe('exercise 6: take back a guess', () => {
  it('a weather call that cannot be stopped answers late, and neither model nor screen hears of it', async () => {
    const intents = new Subject<string>();
    const settle = new Map<string, (found: string) => void>();
    const asked: string[] = [];
    const screen: string[] = [];
    const signals: AbortSignal[] = [];
    answerNewest(
      intents,
      (intent, signal) => {
        signals.push(signal);
        return from(new Promise<string>((resolve) => settle.set(intent, resolve)));
      },
      (found) => {
        asked.push(found);
        return of(`about ${found}`);
      },
    ).subscribe((line) => screen.push(line));

    intents.next('weather');
    intents.next('music');
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
    settle.get('weather')?.('rain');
    settle.get('music')?.('jazz');
    await new Promise((resolve) => setImmediate(resolve));
    expect(asked).toEqual(['jazz']);
    expect(screen).toEqual(['about jazz']);
  });

  it('nothing a guess has found is spent on the model before the user has confirmed it', () => {
    const guesses = new Subject<string>();
    const intents = new Subject<string>();
    const log: string[] = [];
    answerConfirmed(
      guesses,
      intents,
      (intent, signal) => {
        log.push(`tool ${intent}`);
        signal.addEventListener('abort', () => log.push(`stopped ${intent}`));
        return of(`${intent} found`);
      },
      (found) => {
        log.push(`model ${found}`);
        return of(`about ${found}`);
      },
    ).subscribe((line) => log.push(`screen ${line}`));

    guesses.next('weather');
    expect(log).toEqual(['tool weather']);
    intents.next('music');
    expect(log.slice(1)).toEqual(['tool music', 'model music found', 'screen about music found']);
  });

  it('a guess that still runs is stopped when the user wants something else', () => {
    const guesses = new Subject<string>();
    const intents = new Subject<string>();
    const stopped: string[] = [];
    const hangs = (intent: string, signal: AbortSignal): Observable<string> => {
      signal.addEventListener('abort', () => stopped.push(intent));
      return new Subject<string>();
    };
    const subscription = answerConfirmed(guesses, intents, hangs, () => of('')).subscribe();
    guesses.next('weather');
    intents.next('music');
    expect(stopped).toEqual(['weather']);
    subscription.unsubscribe();
    expect(stopped).toEqual(['weather', 'music']);
  });
});
