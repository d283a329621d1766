import type { Observable } from 'rxjs';
import { fromEvent, map, takeUntil, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, FlowSink, Handle } from '../../operators/index.js';
import { classifyError, createAccount, createBreaker, hedging } from '../../operators/index.js';
import type { Drained } from '../../operators/options/types.js';
import { answerCache } from '../../src/index.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { createStages } from '../../src/pipelines/create-stages.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { turns } from '../traps/tools.js';
import { tool } from './tool-kit.js';

/** Called with the outcome of a call. */
type Heard = (outcome: 'ok' | 'failed' | 'closed') => unknown;

interface Subject {
  readonly handle: Handle & { readonly events: Observable<FlowEvent> };
  call(text: string, heard: Heard, signal: AbortSignal): void;
}
/** `at` is told of every callback that is called. */
type Make = (onEvent: FlowSink, at: (callback: string) => void) => Subject;

const CALLS = ['a', 'b', 'c'];
const late = <R>(value: R): Observable<R> => timer(10).pipe(map(() => value));
const atOnce = <R>(value: R): R => value;

/** The first call fails once in a way that may pass, the last for good. */
function working<R>(answer: (text: string) => R, at: (callback: string) => void): (text: string) => R {
  let calls = 0;
  return (text) => {
    at('work');
    if (++calls === 1) throw Object.assign(new Error('busy'), { status: 503 });
    if (text === 'c') throw Object.assign(new Error('no'), { status: 400 });
    return answer(text);
  };
}

/** Hears how a call ends; one that its signal has ended has failed, whatever its error says. */
function ending(heard: Heard, signal: AbortSignal) {
  return {
    error: (error: unknown) => {
      heard(signal.aborted ? 'failed' : codeOf(error));
    },
    complete: () => {
      heard('ok');
    },
  };
}

function codeOf(error: unknown): 'failed' | 'closed' {
  return (error as { readonly code?: string }).code === 'FLOW_CLOSED' ? 'closed' : 'failed';
}

interface ModelRules {
  readonly answer?: (text: string) => unknown;
  readonly parse?: (text: string) => string;
  readonly repair?: { readonly ask: (text: string) => string };
  readonly cache?: { readonly key: (text: string) => string; readonly storage?: typeof store };
}

function models(rules: object, way: 'call' | 'stream' = 'call'): Make {
  return (onEvent, at) => {
    const { answer = late, parse, repair, cache, ...rest } = rules as ModelRules;
    const work = working(answer, at) as (text: string) => Observable<string>;
    const handle = accountedCaller<string, string, string>({
      call: {
        send: work,
        stream: work,
        model: () => (at('model'), 'm'),
        cost: () => (at('cost'), 1),
        usage: () => (at('usage'), { inputTokens: 1 }),
      },
      retry: { delayMs: 5, jitter: 'none', maxShare: 1 },
      concurrency: 1,
      classify: (error, told) => (at('classify'), classifyError(error, told)),
      ...(parse && { parse: (text) => (at('parse'), parse(text)) }),
      ...(repair && { fixAnswer: { ask: (text) => (at('ask'), repair.ask(text)) } }),
      ...(cache && { cache: answerCache({ ...cache, key: (text: string) => (at('key'), cache.key(text)) }) }),
      ...rest,
      onEvent,
    });
    return {
      handle,
      call: (text, heard, signal) => {
        handle[way](text, { signal, lane: 'user' }).subscribe(ending(heard, signal));
      },
    };
  };
}

function tools(answer: (text: string) => unknown): Make {
  return (onEvent, at) => {
    const work = working(answer, at);
    const retry = { delayMs: 5, jitter: 'none', maxShare: 1 } as const;
    const one = tool('t', (text) => work(text as string), {
      retry,
      parameters: { safeParse: (data) => (at('parameters'), { success: true, data }) },
      cost: () => (at('cost'), {}),
      format: () => (at('format'), ''),
    });
    const handle = createToolRunner({
      tools: [one],
      guard: () => (at('guard'), true),
      budget: createBudget(),
      classify: (error, told) => (at('classify'), classifyError(error, told)),
      concurrency: 1,
      onEvent,
    });
    return {
      handle,
      call: (text, heard, signal) => {
        handle.run([{ id: text, name: 't', input: text }], { signal }).subscribe((result) => {
          heard(!result.is_error ? 'ok' : result.error.code === 'closed' ? 'closed' : 'failed');
        });
      },
    };
  };
}

const store = { get: () => undefined, set: () => late(undefined), delete: () => undefined };

const subjects: Readonly<Record<string, Make>> = {
  createModelCaller: models({}),
  'createModelCaller, at once': models({ answer: atOnce }),
  'createModelCaller, stream': models({ answer: (text: string) => late(text) }, 'stream'),
  'createModelCaller, hedge': models({ hedge: hedging({ delayMs: 3 }) }),
  'createModelCaller, breaker, shared limiter': models({
    breaker: createBreaker({}),
    limiter: createAccount({ concurrency: 1, lanes: ['user'] }),
    concurrency: undefined,
  }),
  'createModelCaller, cache': models({ cache: { key: (text: string) => text } }),
  'createModelCaller, slow cache': models({
    cache: { key: () => 'the same', storage: { ...store, get: () => late(undefined) } },
  }),
  'createModelCaller, repair': models({
    parse: (text: string) => {
      if (text === 'a') throw new Error('unreadable');
      return text;
    },
    repair: { ask: () => 'd' },
  }),
  'createToolRunner, at once': tools(atOnce),
  createToolRunner: tools(late),
  createEmbedder: (onEvent, at) => {
    const work = working((text) => late([[text.length]]), at);
    const handle = createEmbedder({
      call: ([text]) => work(text as string),
      countTokens: () => (at('countTokens'), 1),
      classify: (error, told) => (at('classify'), classifyError(error, told)),
      maxSize: 1,
      concurrency: 1,
      onEvent,
    });
    return {
      handle,
      call: (text, heard, signal) => {
        handle.embed(text, { signal, lane: 'user' }).subscribe(ending(heard, signal));
      },
    };
  },
  createStages: (onEvent, at) => {
    const work = working(late, at);
    const retry = { delayMs: 5, jitter: 'none', maxShare: 1 } as const;
    const handle = createStages([{ name: 's', work: (text: string) => work(text), cost: () => (at('cost'), {}), concurrency: 1, retry }], {
      id: (text) => (at('id'), text),
      batches: { scheduling: 'priority', priority: () => (at('priority'), 1) },
      journal: { recall: () => (at('recall'), []), append: () => (at('append'), undefined) },
      classify: (error, told) => (at('classify'), classifyError(error, told)),
      onEvent,
    });
    return {
      handle,
      call: (text, heard, signal) => {
        const leaving = fromEvent(signal, 'abort');
        handle
          .run([text])
          .pipe(takeUntil(leaving))
          .subscribe({
            next: (result) => {
              if (result.type !== 'document') return;
              heard(result.status === 'fulfilled' ? 'ok' : codeOf(result.reason));
            },
            error: (error: unknown) => heard(codeOf(error)),
          });
      },
    };
  },
};

const ACTS = ['nothing', 'drain', 'drain in time', 'close', 'give the first up', 'give all up'] as const;
type Act = (typeof ACTS)[number];

interface Seen {
  readonly events: readonly string[];
  readonly places: readonly string[];
  /** Work that began when all was given up. */
  readonly tooLate: number;
  readonly told: readonly string[];
  readonly heard: readonly (readonly [string, string])[];
  readonly left: ReadonlySet<string>;
  readonly accepted: number;
  /** Heard before the act. */
  readonly before: number;
  readonly drained: Drained | undefined;
}

/** Makes all calls, and does it when an event is told for so many times. */
async function run(make: Make, act: Act, place: string): Promise<Seen> {
  const events: string[] = [];
  const places: string[] = [];
  let tooLate = 0;
  const told: string[] = [];
  const heard: [string, string][] = [];
  const left = new Set<string>();
  const times = new Map<string, number>();
  let before = 0;
  let drained: Promise<Drained> | undefined;
  virtualTime(({ advance, flush }) => {
    const leaving = new Map(CALLS.map((text) => [text, new AbortController()]));
    let isDone = false;
    const leave = (text: string): void => {
      if (!heard.some(([name]) => name === text)) left.add(text);
      leaving.get(text)?.abort();
    };
    const strike = (): void => {
      if (act !== 'give the first up' && act !== 'give all up') before = heard.length;
      if (act === 'close') subject.handle.close();
      else if (act === 'drain') drained = subject.handle.drain();
      else if (act === 'drain in time') drained = subject.handle.drain({ timeoutMs: 7 });
      else if (act === 'give the first up') leave('a');
      else if (act === 'give all up') for (const text of CALLS) leave(text);
    };
    const at = (what: string): void => {
      const here = `${what} ${times.get(what) ?? 0}`;
      times.set(what, (times.get(what) ?? 0) + 1);
      places.push(here);
      if (what === 'work' && isDone && act === 'close') tooLate++;
      if (isDone || place !== here) return;
      isDone = true;
      strike();
    };
    const subject = make(({ type }) => {
      events.push(type);
      at(type);
    }, at);
    subject.handle.events.subscribe({ next: ({ type }) => told.push(type), complete: () => told.push('complete') });
    for (const text of CALLS) {
      const { signal } = leaving.get(text) as AbortController;
      if (!signal.aborted) subject.call(text, (outcome) => heard.push([text, outcome]), signal);
    }
    advance(500);
    if (act === 'nothing' || act.startsWith('give')) before = heard.length;
    drained ??= subject.handle.drain();
    advance(500);
    flush();
  });
  let numbers: Drained | undefined;
  void drained?.then((counts) => (numbers = counts));
  await turns(10);
  const accepted = events.filter((type) => type === 'accepted').length;
  return { events, places, tooLate, told, heard, left, accepted, before, drained: numbers };
}

function faultsOf({ events, tooLate, told, heard, left, before, drained }: Seen): string[] {
  const faults: string[] = [];
  const expectThat = (isSo: boolean, fault: string): void => {
    if (!isSo) faults.push(fault);
  };
  const counted = (type: string): number => events.filter((each) => each === type).length;
  expectThat(counted('drained') === 1 && events.at(-1) === 'drained', '`drained` is not told once, and last');
  expectThat(told.join() === [...events, 'complete'].join(), '`events` says something else than `onEvent`');
  expectThat(counted('accepted') === counted('settled') + counted('cancelled') + counted('dropped'), 'an accepted call has no end, or two');
  expectThat(tooLate === 0, 'work begins after the end');
  for (const text of CALLS) {
    const outcomes = heard.filter(([name]) => name === text).length;
    if (left.has(text)) expectThat(outcomes <= 1, `${text} is answered twice`);
    else expectThat(outcomes === 1, `${text} is answered ${outcomes} times`);
  }
  if (drained === undefined) return [...faults, '`drain` never resolves'];
  // What was refused, or left by its own caller, is in none of the numbers.
  const after = heard.slice(before).filter(([text]) => !left.has(text));
  const closed = after.filter(([, outcome]) => outcome === 'closed').length;
  expectThat(drained.done === after.length - closed, `${drained.done} are counted as done, ${after.length - closed} were`);
  expectThat(drained.aborted + drained.dropped <= closed, `${drained.aborted + drained.dropped} are counted as given up, ${closed} were`);
  return faults;
}

const rows = Object.entries(subjects).flatMap(([name, make]) => ACTS.map((act) => ({ name, act, make })));

describe('a listener that ends everything', () => {
  it.each(rows)('leaves no call unsettled, and no event comes after `drained`: $name, $act', async ({ name, act, make }) => {
    const plain = await run(make, 'nothing', '');
    const faults: string[] = [];
    for (const place of act === 'nothing' ? [''] : plain.places) {
      const seen = await run(make, act, place);
      faults.push(...faultsOf(seen).map((fault) => `${name}, ${act} in ${place}: ${fault} (${seen.events.join(' ')})`));
    }
    expect(faults).toEqual([]);
  });
});
