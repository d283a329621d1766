import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Observable, SchedulerLike } from 'rxjs';
import { lastValueFrom, VirtualTimeScheduler } from 'rxjs';
import { beforeAll, describe, expect, it } from 'vitest';
import type { FlowEvent, FlowSink, Handle, Limiter } from '../../operators/index.js';
import { createLimiter, isFlowError } from '../../operators/index.js';
import { examplesInPage, importExample } from '../support/doctest.js';

const project = resolve(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(project, path), 'utf8');
const PAGE = 'docs/guides/own-pipeline.md';
const MOST_LINES = 60;

interface Options {
  readonly moderate: (texts: readonly string[]) => Promise<boolean[]>;
  readonly translate: (text: string, signal: AbortSignal) => Promise<string>;
  readonly limiter: Limiter;
  readonly deadlineMs?: number;
  readonly onEvent?: FlowSink;
  readonly scheduler?: SchedulerLike;
}
type Translator = Handle & { readonly translate: (text: string, signal?: AbortSignal) => Observable<string> };

const [example] = examplesInPage(PAGE, read(PAGE));
let Translator: new (options: Options) => Translator;

beforeAll(async () => {
  ({ Translator } = (await importExample(example!)) as { Translator: typeof Translator });
});

/** What becomes of each text: results and errors in the order in which they came. */
class Outcomes {
  readonly seen: string[] = [];

  of(text: string, result: Observable<string>) {
    return result.subscribe({
      next: (value) => this.seen.push(`${text}: ${value}`),
      error: (error: unknown) => this.seen.push(`${text}: ${isFlowError(error) ? error.code : String(error)}`),
      complete: () => this.seen.push(`${text}.`),
    });
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

/** A translator whose services answer when the test says so. */
function setup(given: Partial<Options> = {}) {
  const sent: string[] = [];
  const aborted: string[] = [];
  const answers = new Map<string, { resolve(value: string): void; reject(error: unknown): void }>();
  const events: FlowEvent[] = [];
  const limiter = createLimiter({ concurrency: 4 });
  const translator = new Translator({
    moderate: (texts) => {
      sent.push(`moderate ${texts.join(' ')}`);
      return Promise.resolve(texts.map((text) => text !== 'insult'));
    },
    translate: (text, signal) => {
      sent.push(`translate ${text}`);
      signal.addEventListener('abort', () => aborted.push(text));
      return new Promise((resolve, reject) => answers.set(text, { resolve, reject }));
    },
    limiter,
    onEvent: (event) => events.push(event),
    ...given,
  });
  return { translator, outcomes: new Outcomes(), sent, aborted, answers, events, limiter };
}

describe('the example of the page for authors', () => {
  it('has at most 60 lines', () => {
    expect(example!.code.split('\n').length).toBeLessThanOrEqual(MOST_LINES);
  });

  it('is what a consumer of the package compiles', () => {
    const [pipeline = ''] = example!.code.split('\nconst moderate = ');
    const importsOf = (text: string): string => text.slice(text.indexOf('\n\n'));
    expect(read('test/consumer/own-pipeline.mts')).toContain(importsOf(pipeline).trim());
  });

  it('gives each accepted text its own result, once', async () => {
    const { translator, outcomes, sent, answers, events } = setup();
    for (const text of ['a', 'insult', 'b']) outcomes.of(text, translator.translate(text));
    await turn();
    expect(sent).toEqual(['moderate a insult b', 'translate a', 'translate b']);
    answers.get('b')!.resolve('B');
    answers.get('a')!.reject(Object.assign(new Error('bad text'), { status: 400 }));
    await turn();
    expect(outcomes.seen).toEqual(['insult: Error: refused by moderation', 'b: B', 'b.', 'a: Error: bad text']);
    expect(events.map(({ type, operator }) => [type, operator])).toEqual(Array(3).fill(['accepted', 'Translator']));
  });

  it('works with one permit, which no text holds while it waits for another one', async () => {
    const { translator, outcomes, answers, limiter } = setup({ limiter: createLimiter({ concurrency: 1 }) });
    for (const text of ['a', 'b']) outcomes.of(text, translator.translate(text));
    await turn();
    answers.get('a')!.resolve('A');
    await turn();
    answers.get('b')!.resolve('B');
    await turn();
    expect(outcomes.seen).toEqual(['a: A', 'a.', 'b: B', 'b.']);
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });

  it('drains: accepts nothing new, and counts what was accepted', async () => {
    const { translator, outcomes, answers, events } = setup();
    outcomes.of('a', translator.translate('a'));
    await turn();
    const drained = translator.drain();
    outcomes.of('late', translator.translate('late'));
    answers.get('a')!.resolve('A');
    expect(await drained).toEqual({ done: 1, aborted: 0, dropped: 0 });
    expect(outcomes.seen).toEqual(['late: FLOW_CLOSED', 'a: A', 'a.']);
    expect(events.at(-1)?.type).toBe('drained');
    expect(events.filter(({ type }) => type === 'drained')).toHaveLength(1);
  });

  it('drains at once without a text', async () => {
    const { translator } = setup();
    expect(await translator.drain()).toEqual({ done: 0, aborted: 0, dropped: 0 });
  });

  it('closes: ends every open text, and says which were sent', async () => {
    const { translator, outcomes, aborted, limiter } = setup({
      moderate: (texts) => (texts.includes('b') ? new Promise(() => undefined) : Promise.resolve([true])),
    });
    outcomes.of('a', translator.translate('a'));
    await turn();
    outcomes.of('b', translator.translate('b'));
    const drained = translator.drain();
    translator.close();
    expect(outcomes.seen).toEqual(['a: FLOW_CLOSED', 'b: FLOW_CLOSED']);
    expect(aborted).toEqual(['a']);
    expect(await drained).toEqual({ done: 0, aborted: 1, dropped: 1 });
    await turn();
    expect(limiter.snapshot().queued).toBe(0);
  });

  it('closes when the time of drain is over', () => {
    const scheduler = new VirtualTimeScheduler();
    const { translator, outcomes } = setup({ scheduler, limiter: createLimiter({ concurrency: 1, abortGraceMs: 0, scheduler }) });
    outcomes.of('a', translator.translate('a'));
    void translator.drain({ timeoutMs: 100 });
    scheduler.flush();
    expect([scheduler.now(), outcomes.seen]).toEqual([100, ['a: FLOW_CLOSED']]);
  });

  it('drains when the signal of the process aborts', async () => {
    const { translator, outcomes } = setup();
    const stopping = new AbortController();
    translator.shutdownOn(stopping.signal);
    stopping.abort();
    outcomes.of('a', translator.translate('a'));
    expect(outcomes.seen).toEqual(['a: FLOW_CLOSED']);
    await translator.drain();
  });

  it('ends the texts of one signal with its reason, and the others go on', async () => {
    const { translator, outcomes, aborted, answers } = setup();
    const leaving = new AbortController();
    outcomes.of('a', translator.translate('a', leaving.signal));
    outcomes.of('b', translator.translate('b', leaving.signal));
    outcomes.of('c', translator.translate('c'));
    await turn();
    const drained = translator.drain();
    leaving.abort('left');
    outcomes.of('d', translator.translate('d', leaving.signal));
    answers.get('c')!.resolve('C');
    // Callers that left are not counted.
    expect(await drained).toEqual({ done: 1, aborted: 0, dropped: 0 });
    expect(outcomes.seen).toEqual(['a: left', 'b: left', 'd: FLOW_CLOSED', 'c: C', 'c.']);
    expect(aborted).toEqual(['a', 'b']);
  });

  it('accepts nothing of a signal that has aborted', () => {
    const { translator, outcomes, events } = setup();
    outcomes.of('a', translator.translate('a', AbortSignal.abort('gone')));
    expect(outcomes.seen).toEqual(['a: gone']);
    expect(events).toEqual([]);
  });

  it('stops the work of a text that is unsubscribed, before and after it was sent', async () => {
    const { translator, outcomes, sent, aborted } = setup();
    outcomes.of('a', translator.translate('a')).unsubscribe();
    const b = outcomes.of('b', translator.translate('b'));
    await turn();
    b.unsubscribe();
    expect(sent).toEqual(['moderate b', 'translate b']);
    expect(aborted).toEqual(['b']);
    expect(await translator.drain()).toEqual({ done: 0, aborted: 0, dropped: 0 });
    expect(outcomes.seen).toEqual([]);
  });

  it('has one deadline for both steps', async () => {
    const scheduler = new VirtualTimeScheduler();
    const limiter = createLimiter({ concurrency: 1, abortGraceMs: 0, scheduler });
    let answer: ((verdicts: boolean[]) => void) | undefined;
    const moderate = (): Promise<boolean[]> => new Promise((resolve) => (answer = resolve));
    const { translator, outcomes, aborted } = setup({ scheduler, limiter, moderate, deadlineMs: 100 });
    outcomes.of('a', translator.translate('a'));
    scheduler.maxFrames = 60;
    scheduler.schedule(() => undefined, 60);
    scheduler.flush();
    answer!([true]);
    await turn();
    scheduler.maxFrames = Infinity;
    scheduler.flush();
    expect([scheduler.now(), outcomes.seen, aborted]).toEqual([100, ['a: FLOW_DEADLINE'], ['a']]);
  });

  it('may be closed by its listener', async () => {
    const seen: string[] = [];
    const { translator, outcomes, sent } = setup({
      onEvent: ({ type }) => {
        seen.push(type);
        if (type === 'accepted') translator.close();
      },
    });
    outcomes.of('a', translator.translate('a'));
    await turn();
    expect([seen, outcomes.seen, sent]).toEqual([['accepted', 'drained'], ['a: FLOW_CLOSED'], []]);
  });

  it('lets the subscriber of one text leave another one while the handle closes', async () => {
    const { translator, outcomes } = setup();
    translator.translate('a').subscribe({
      error: () => {
        b.unsubscribe();
      },
    });
    const b = outcomes.of('b', translator.translate('b'));
    const drained = translator.drain();
    translator.close();
    expect(outcomes.seen).toEqual([]);
    expect(await drained).toEqual({ done: 0, aborted: 0, dropped: 1 });
  });

  it('names a misspelt option, and an invalid limiter', () => {
    const options = {
      moderate: () => Promise.resolve([]),
      translate: () => Promise.resolve(''),
      limiter: createLimiter({ concurrency: 1 }),
    };
    expect(() => new Translator({ ...options, deadlineMS: 5 } as Options)).toThrow('Did you mean `deadlineMs`?');
    expect(() => new Translator({ ...options, limiter: {} as Limiter })).toThrow('Translator: expected `limiter` to be a limiter');
  });

  it('resolves a promise for one text', async () => {
    const { translator, answers } = setup();
    const result = lastValueFrom(translator.translate('a'));
    await turn();
    answers.get('a')!.resolve('A');
    expect(await result).toBe('A');
  });
});
