import * as v1 from '@ag-ui/client';
import * as v0 from 'ag-ui-client0';
import fc from 'fast-check';
import { from, NEVER, Observable, of, Subject, take } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { createLimiter } from '../../operators/index.js';
import type { AguiEvent, AguiFlowEvent, AguiFlowOptions } from '../../src/adapters/ag-ui.js';
import { aguiFlow } from '../../src/adapters/ag-ui.js';
import { sized } from '../support/deep.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const versions: readonly (readonly [string, typeof v1])[] = [
  ['1.0.0', v1],
  ['0.0.59', v0 as unknown as typeof v1],
];
expectNoUnhandledRejections();

const input = (runId: string) => ({ threadId: 't', runId });
const started: AguiEvent = { type: 'RUN_STARTED', threadId: 't', runId: '1' };

/** What comes out of a run that is superseded after these events. */
function superseded(events: readonly AguiEvent[], options: AguiFlowOptions = {}): AguiEvent[] {
  const flow = aguiFlow({ coalesce: { maxWaitMs: Infinity }, ...options });
  const source = new Subject<AguiEvent>();
  const seen: AguiEvent[] = [];
  const inner = { run: (given: ReturnType<typeof input>) => flow.switchRuns(given, { run: () => source as Observable<AguiEvent> }) };
  flow.coalesce(input('1'), inner).subscribe((event) => seen.push(event));
  for (const event of events) source.next(event);
  flow.switchRuns(input('2'), { run: () => NEVER as Observable<AguiEvent> }).subscribe();
  // Too late to be heard.
  source.next({ type: 'TEXT_MESSAGE_CONTENT', messageId: 'late', delta: 'x' });
  return seen;
}

/** Rejects when AG-UI's own stages do not let these events pass. */
function verified(client: typeof v1, events: readonly AguiEvent[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const checked = client.verifyEvents(false)(client.transformChunks(false)(from(events) as never));
    checked.subscribe({ error: reject, complete: resolve });
  });
}

/** Each kind of thing that is opened and closed, and what may stand inside of it. */
const owner = fc.constantFrom({}, { subagentRunId: 's1' }, { subagentRunId: 's2' });
const brackets = fc.record({ kind: fc.nat(5), owner, at: fc.nat(40), end: fc.nat(40) });
function opened({ kind, owner: whose }: { kind: number; owner: object }, index: number): readonly [AguiEvent, AguiEvent] {
  const id = `e${String(index)}`;
  const pair = (type: string, ids: object, more: object = {}, end = 'END', start = 'START') =>
    [
      { type: `${type}_${start}`, ...ids, ...more, ...whose },
      { type: `${type}_${end}`, ...ids, ...whose },
    ] as const;
  if (kind === 0) return pair('TEXT_MESSAGE', { messageId: id }, { role: 'assistant' });
  if (kind === 1) return pair('TOOL_CALL', { toolCallId: id }, { toolCallName: 'look' });
  if (kind === 2) return pair('REASONING', { messageId: id });
  if (kind === 3) return pair('REASONING_MESSAGE', { messageId: id }, { role: 'reasoning' });
  if (kind === 4) return pair('STEP', { stepName: id }, {}, 'FINISHED', 'STARTED');
  return [
    { type: 'SUBAGENT_STARTED', subagentRunId: id, name: 'helper' },
    { type: 'SUBAGENT_FINISHED', subagentRunId: id },
  ];
}

describe.each(versions)('a run that is superseded anywhere, to @ag-ui/client %s', (_version, client) => {
  it('ends as the protocol wants it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(brackets, { maxLength: 12 }), fc.boolean(), async (list, isStarted) => {
        const timed = list.flatMap((each, index) => {
          const [start, end] = opened(each, index);
          const closes = each.at + 1 + each.end;
          return [{ at: each.at, event: start }, ...(closes <= 40 ? [{ at: closes, event: end }] : [])];
        });
        const inside = timed.sort((a, b) => a.at - b.at).map(({ event }) => event);
        const seen = superseded(isStarted ? [started, ...inside] : []);
        expect(seen.slice(0, isStarted ? inside.length + 1 : 0)).toEqual(isStarted ? [started, ...inside] : []);
        expect(seen.at(-1)).toEqual({ type: 'RUN_FINISHED', threadId: 't', runId: '1', outcome: { type: 'cancelled' } });
        await verified(client, seen);
      }),
      { numRuns: sized(60, 200) },
    );
  });

  it('keeps the text that had come', async () => {
    const texts = ['a', 'b', 'c'].map((delta) => ({ type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta }));
    const short = { type: 'TEXT_MESSAGE_CHUNK', messageId: 'n', delta: 'short' };
    const seen = superseded([started, { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant' }, ...texts, short]);
    expect(seen.map(({ delta }) => delta).filter((delta) => delta !== undefined)).toEqual(['abc', 'short']);
    await verified(client, seen);
  });

  it('an event in forbidden order is left to the client, which refuses it', async () => {
    const forbidden = [started, { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'x' }];
    await expect(verified(client, superseded(forbidden))).rejects.toThrow(/No active text message/);
    const twice = [started, { type: 'STEP_STARTED', stepName: 'x' }, { type: 'STEP_STARTED', stepName: 'x' }];
    await expect(verified(client, superseded(twice))).rejects.toThrow(/already active/);
  });

  it('a stream of several runs is ended in its last one', async () => {
    const first = [started, { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant' }, { type: 'RUN_ERROR', message: 'no' }];
    const seen = superseded([...first, started, { type: 'STEP_STARTED', stepName: 'x' }]);
    expect(seen.slice(-2).map(({ type }) => type)).toEqual(['STEP_FINISHED', 'RUN_FINISHED']);
    await verified(client, seen);
  });
});

describe('a run that is left', () => {
  it.each([1, 2, 3, 4])('with its event number %i, which it sends while it starts, tells nothing more and stops its agent', (count) => {
    const flow = aguiFlow({ coalesce: { maxWaitMs: 0 } });
    const all = ['RUN_STARTED', 'CUSTOM', 'RAW', 'RUN_FINISHED'];
    let isRunning = false;
    const run = () =>
      new Observable<AguiEvent>((to) => {
        isRunning = true;
        for (const type of all) to.next({ type });
        return () => (isRunning = false);
      });
    const seen: string[] = [];
    const events = flow.coalesce(input('1'), { run: (given: ReturnType<typeof input>) => flow.switchRuns(given, { run }) });
    events.pipe(take(count)).subscribe(({ type }) => seen.push(type));
    expect(seen).toEqual(all.slice(0, count));
    expect(isRunning).toBe(false);
  });

  it('is reported for a subscription without an observer, too', () => {
    const { switchRuns, events } = aguiFlow();
    const told: AguiFlowEvent[] = [];
    events.subscribe((event) => told.push(event));
    switchRuns(input('1'), { run: () => of(started, { type: 'RUN_FINISHED' }) as Observable<AguiEvent> }).subscribe();
    expect(told.map(({ type }) => type)).toEqual(['runStarted', 'runEnded']);
  });

  it.each<[string, AguiFlowOptions]>([
    [
      'key',
      {
        key: () => {
          throw new Error('x');
        },
      },
    ],
    [
      'job',
      {
        limiter: createLimiter(),
        job: () => {
          throw new Error('x');
        },
      },
    ],
  ])('a `%s` that throws fails the run and nothing else', (_name, options) => {
    const { switchRuns } = aguiFlow(options);
    const errors: unknown[] = [];
    switchRuns(input('1'), { run: () => NEVER as Observable<AguiEvent> }).subscribe({ error: (error: unknown) => errors.push(error) });
    expect(errors).toEqual([new Error('x')]);
  });

  it('what fails behind its end is dropped', () => {
    const { switchRuns, events } = aguiFlow();
    const told: AguiFlowEvent[] = [];
    events.subscribe((event) => told.push(event));
    const source = new Subject<AguiEvent>();
    const seen: string[] = [];
    switchRuns(input('1'), { run: () => source as Observable<AguiEvent> }).subscribe({
      next: ({ type }) => seen.push(type),
      error: () => seen.push('#'),
      complete: () => seen.push('|'),
    });
    source.next(started);
    source.next({ type: 'RUN_FINISHED' });
    source.error(new SyntaxError('no JSON'));
    expect(seen).toEqual(['RUN_STARTED', 'RUN_FINISHED', '|']);
    expect(told.at(-1)).toMatchObject({ type: 'runEnded', outcome: 'finished' });
  });
});
