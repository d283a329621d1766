import * as v1 from '@ag-ui/client';
import * as v0 from 'ag-ui-client0';
import { NEVER, Observable, of, Subject, take, throwError } from 'rxjs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createLimiter, isFlowError, lanes, slidingWindow } from '../../operators/index.js';
import type { AguiEvent, AguiFlowEvent, AguiInput } from '../../src/adapters/ag-ui.js';
import { aguiFlow, run$ } from '../../src/adapters/ag-ui.js';
import type { AguiServer } from '../fakes/ag-ui-server.js';
import { speech, startAguiServer } from '../fakes/ag-ui-server.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const versions: readonly (readonly [string, typeof v1])[] = [
  ['1.0.0', v1],
  ['0.0.59', v0 as unknown as typeof v1],
];
expectNoUnhandledRejections();

const inputOf = (runId: string) => ({ threadId: 't', runId, messages: [], tools: [], context: [], state: {}, forwardedProps: {} });

describe.each(versions)('run$ of an HttpAgent, @ag-ui/client %s', (_version, client) => {
  let server: AguiServer | undefined;
  afterEach(() => server?.close());

  it('is cold: each subscription starts a run of its own, and unsubscribing stops that run', async () => {
    server = await startAguiServer((run) => speech(run, ['x'], 'hang'));
    const agent = new client.HttpAgent({ url: server.url, fetch: aguiFlow().fetch });
    const events = run$(agent, inputOf('r'));
    expect(server.runs).toHaveLength(0);
    const seen: string[][] = [[], []];
    const both = seen.map((types) => events.subscribe(({ type }) => types.push(type)));
    await vi.waitFor(() => {
      expect(seen.map((types) => types.length)).toEqual([3, 3]);
    });
    both[0]?.unsubscribe();
    await vi.waitFor(() => {
      expect(server?.runs.map(({ end }) => end).sort()).toEqual(['aborted', 'running']);
    });
    both[1]?.unsubscribe();
    await server.idle();
    expect(server.runs.map(({ end }) => end)).toEqual(['aborted', 'aborted']);
  });

  it('ends with its signal, at the server too', async () => {
    server = await startAguiServer((run) => speech(run, ['x'], 'hang'));
    const agent = new client.HttpAgent({ url: server.url, fetch: aguiFlow().fetch });
    const controller = new AbortController();
    const seen: AguiEvent[] = [];
    const ended = new Promise<void>((resolve, reject) => {
      run$(agent, inputOf('r'), { signal: controller.signal }).subscribe({
        next: (event) => seen.push(event),
        error: reject,
        complete: resolve,
      });
    });
    await vi.waitFor(() => {
      expect(seen).toHaveLength(3);
    });
    controller.abort(new Error('a reason of its own'));
    await ended;
    await server.idle();
    expect(seen.at(-1)).toMatchObject({ type: 'RUN_ERROR', code: 'abort' });
    expect(server.runs[0]?.end).toBe('aborted');
  });
});

describe('run$', () => {
  const input: AguiInput = { threadId: 't', runId: 'r' };

  it('tells an agent without a request by its abortRun, once, and never after the end', () => {
    const abortRun = vi.fn();
    const left = run$({ run: () => NEVER as Observable<AguiEvent>, abortRun }, input).subscribe();
    left.unsubscribe();
    left.unsubscribe();
    expect(abortRun).toHaveBeenCalledTimes(1);
    run$({ run: () => of({ type: 'RUN_FINISHED' }), abortRun }, input).subscribe();
    run$({ run: () => throwError(() => new Error('no')) as Observable<AguiEvent>, abortRun }, input).subscribe({ error: () => undefined });
    expect(abortRun).toHaveBeenCalledTimes(1);
  });

  it('starts nothing when its signal has aborted', () => {
    const run = vi.fn(() => NEVER as Observable<AguiEvent>);
    const seen: string[] = [];
    run$({ run }, input, { signal: AbortSignal.abort() }).subscribe({
      next: ({ type }) => seen.push(type),
      complete: () => seen.push('|'),
    });
    expect(run).not.toHaveBeenCalled();
    expect(seen).toEqual(['RUN_ERROR', '|']);
  });

  it('hands on what the agent throws', () => {
    const broken = new Error('broken');
    let caught: unknown;
    const run = (): Observable<AguiEvent> => {
      throw broken;
    };
    run$({ run }, input).subscribe({ error: (error: unknown) => (caught = error) });
    expect(caught).toBe(broken);
  });
});

describe('the runs of a flow', () => {
  const input = (runId: string, threadId = 't'): AguiInput => ({ threadId, runId });

  it('only take the place of those with the same key', () => {
    const { switchRuns } = aguiFlow();
    const next = { run: () => NEVER as Observable<AguiEvent> };
    const ended: string[] = [];
    for (const [runId, threadId] of [
      ['1', 'a'],
      ['2', 'b'],
      ['3', 'a'],
    ] as const) {
      switchRuns(input(runId, threadId), next).subscribe({ complete: () => ended.push(runId) });
    }
    expect(ended).toEqual(['1']);
  });

  it('a run started by a listener of an end event supersedes the run that ended the old one', () => {
    const { switchRuns } = aguiFlow();
    const running = new Set<string>();
    const next = (runId: string) => ({
      run: () =>
        new Observable<AguiEvent>(() => {
          running.add(runId);
          return () => running.delete(runId);
        }),
    });
    const ended: string[] = [];
    const third = () => {
      switchRuns(input('3'), next('3')).subscribe({ complete: () => ended.push('3') });
    };
    switchRuns(input('1'), next('1')).subscribe({
      complete: () => {
        ended.push('1');
        third();
      },
    });
    switchRuns(input('2'), next('2')).subscribe({ complete: () => ended.push('2') });
    expect(ended).toEqual(['1', '2']);
    expect([...running]).toEqual(['3']);
  });

  it('a run whose first events come while it starts can be left in the middle of them', () => {
    const { switchRuns, events } = aguiFlow();
    const told: string[] = [];
    events.subscribe((event) => told.push(event.type === 'runEnded' ? `runEnded ${event.outcome}` : event.type));
    const seen: string[] = [];
    const run = () => of<AguiEvent[]>({ type: 'RUN_STARTED' }, { type: 'CUSTOM' }, { type: 'RUN_FINISHED' });
    switchRuns(input('1'), { run })
      .pipe(take(2))
      .subscribe(({ type }) => seen.push(type));
    expect(seen).toEqual(['RUN_STARTED', 'CUSTOM']);
    expect(told).toEqual(['runStarted', 'runEnded left']);
  });

  it('wait for a permit, pay what they have used, and give it back', () => {
    const limiter = createLimiter({
      concurrency: 1,
      rates: [slidingWindow({ unit: 'tokens', amount: 1000, windowMs: 60_000 })],
      headroom: 1,
    });
    const { switchRuns } = aguiFlow({ limiter, job: () => ({ cost: { tokens: 10 } }) });
    const sources: Record<string, Subject<AguiEvent>> = { a: new Subject(), b: new Subject(), c: new Subject() };
    const started: string[] = [];
    const begin = (thread: string) =>
      switchRuns(input(thread, thread), {
        run: () => {
          started.push(thread);
          return sources[thread] as Observable<AguiEvent>;
        },
      }).subscribe();
    begin('a');
    const b = begin('b');
    begin('c');
    expect(started).toEqual(['a']);
    // Left while it waits: nothing is paid.
    b.unsubscribe();
    sources['a']?.next({ type: 'RUN_STARTED' });
    sources['a']?.next({
      type: 'RUN_FINISHED',
      usage: [
        { inputTokens: 200, outputTokens: 50 },
        { inputTokens: 50, model: 'm' },
      ],
    });
    expect(started).toEqual(['a', 'c']);
    expect(Math.round(limiter.snapshot().tokens)).toBe(1000 - 300 - 10);
    sources['c']?.next({ type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'x'.repeat(400) });
    switchRuns(input('next', 'c'), { run: () => NEVER as Observable<AguiEvent> }).subscribe();
    expect(Math.round(limiter.snapshot().tokens)).toBe(1000 - 300 - 100 - 10);
    expect(limiter.snapshot().executing).toBe(1);
  });

  it('are refused as the limiter refuses, and told as failed', () => {
    const limiter = createLimiter({ concurrency: 1, maxQueued: 0 });
    const { switchRuns, events } = aguiFlow({ limiter });
    const told: AguiFlowEvent[] = [];
    events.subscribe((event) => told.push(event));
    const next = { run: () => NEVER as Observable<AguiEvent> };
    switchRuns(input('1', 'a'), next).subscribe();
    let refused: unknown;
    switchRuns(input('2', 'b'), next).subscribe({ error: (error: unknown) => (refused = error) });
    expect(refused).toMatchObject({ code: 'FLOW_RATE_LIMITED' });
    expect(told.at(-1)).toMatchObject({ type: 'runEnded', runId: '2', outcome: 'failed', chunks: 0, estimatedTokens: 0 });
  });

  it.each([{ lane: 'typo' }, { cost: { tokens: Number.NaN } }])('are refused when the limiter does not know what %o is', (job) => {
    const left: unknown[] = [];
    const limiter = createLimiter({ queue: lanes([{ name: 'chat' }]) });
    const { switchRuns, events } = aguiFlow({ limiter, job: () => job, onSupersede: (run) => left.push(run) });
    const told: AguiFlowEvent[] = [];
    events.subscribe((event) => told.push(event));
    let refused: unknown;
    switchRuns(input('1'), { run: () => NEVER as Observable<AguiEvent> }).subscribe({ error: (error: unknown) => (refused = error) });
    expect(isFlowError(refused)).toBe(true);
    expect(told.at(-1)).toMatchObject({ type: 'runEnded', outcome: 'failed' });
    expect([left, limiter.snapshot().queued]).toEqual([[], 0]);
  });

  it('tell how many tokens have come of a run that was given up', () => {
    const { switchRuns, events } = aguiFlow();
    const told: AguiFlowEvent[] = [];
    events.subscribe((event) => told.push(event));
    const source = new Subject<AguiEvent>();
    const run = switchRuns(input('1'), { run: () => source as Observable<AguiEvent> }).subscribe();
    source.next({ type: 'RUN_STARTED' });
    for (const delta of ['four', 'four', '四四四四']) source.next({ type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta });
    source.next({ type: 'STATE_DELTA', delta: [{ op: 'add', path: '/a', value: 1 }] });
    run.unsubscribe();
    expect(told.at(-1)).toMatchObject({ outcome: 'left', chunks: 3, estimatedTokens: 5 });
  });

  it('a stop route that fails is reported, and is not a failure of the run', async () => {
    const reported: unknown[] = [];
    const { config } = await import('rxjs');
    config.onUnhandledError = (error) => reported.push(error);
    for (const onSupersede of [
      () => Promise.reject(new Error('later')),
      () => {
        throw new Error('at once');
      },
    ]) {
      const { switchRuns } = aguiFlow({ onSupersede });
      switchRuns(input('1'), { run: () => NEVER as Observable<AguiEvent> })
        .subscribe()
        .unsubscribe();
    }
    await vi.waitFor(() => {
      expect(reported.map(String).sort()).toEqual(['Error: at once', 'Error: later']);
    });
    config.onUnhandledError = null;
  });
});

describe('the fetch of a flow', () => {
  const never = (_url: string, { signal }: RequestInit) =>
    new Promise<Response>((_resolve, reject) => {
      const refuse = () => {
        reject(signal?.reason as Error);
      };
      if (signal?.aborted === true) refuse();
      else signal?.addEventListener('abort', refuse);
    });
  /** Looks at no signal. */
  const silent = () =>
    Promise.resolve(
      new Response(
        new ReadableStream({
          start: (to) => {
            to.enqueue(new TextEncoder().encode('data: {"ty'));
          },
        }),
      ),
    );

  it.each([
    ['before it answers', never],
    ['while it answers', silent],
  ])('says as clients expect it that a request has timed out %s', async (_when, base) => {
    const answer = aguiFlow({ fetch: base })
      .fetch('https://host', { body: '{}', signal: AbortSignal.timeout(5) })
      .then((response) => response.text());
    await expect(answer).rejects.toMatchObject({ name: 'AbortError', message: expect.stringContaining('TimeoutError') as string });
  });

  it('hands on all that has come before the connection was lost', async () => {
    const pieces = Array.from({ length: 50 }, (_, i) => `data: ${String(i)}\n\n`);
    const left = [...pieces];
    const base = () =>
      Promise.resolve(
        new Response(
          new ReadableStream({
            pull: (to) => {
              const piece = left.shift();
              if (piece === undefined) to.error(new TypeError('terminated'));
              else to.enqueue(new TextEncoder().encode(piece));
            },
          }),
        ),
      );
    const { body } = await aguiFlow({ fetch: base }).fetch('https://host', { body: '{}' });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const piece of body as unknown as AsyncIterable<Uint8Array>) {
        seen.push(new TextDecoder().decode(piece));
        await new Promise((resolve) => setTimeout(resolve));
      }
    })();
    await expect(reading).rejects.toMatchObject({ name: 'AbortError', message: 'TypeError: terminated' });
    expect(seen.join('')).toBe(pieces.join(''));
  });

  it('aborts as clients expect it, whatever the reason was', async () => {
    const signal = AbortSignal.abort(new Error('a reason of its own'));
    await expect(aguiFlow({ fetch: never }).fetch('https://host', { body: '{}', signal })).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('hands on what its base fails with, when that is no lost connection', async () => {
    const refused = Object.assign(new Error('too many'), { code: 'FLOW_OVERFLOW' });
    await expect(aguiFlow({ fetch: () => Promise.reject(refused) }).fetch('https://host', { body: 'no JSON' })).rejects.toBe(refused);
  });
});
