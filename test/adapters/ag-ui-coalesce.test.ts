import * as v1 from '@ag-ui/client';
import * as v0 from 'ag-ui-client0';
import fc from 'fast-check';
import { from, Subject } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { AguiEvent, DeltaOptions } from '../../src/adapters/ag-ui.js';
import { coalesceEvents } from '../../src/adapters/ag-ui.js';
import { sized } from '../support/deep.js';

/** Events as the agents of this project's tests make them; both clients take them. */
type Events = readonly AguiEvent[];

const versions: readonly (readonly [string, typeof v1])[] = [
  ['1.0.0', v1],
  ['0.0.59', v0 as unknown as typeof v1],
];

/** What becomes of the messages and the state of an agent that is handed these events, or why it refuses them: by AG-UI's own stages. */
async function outcomeOf(client: typeof v1, events: Events): Promise<unknown> {
  const agent = new (class extends client.AbstractAgent {
    run() {
      return from(events) as never;
    }
  })({ threadId: 't', initialState: {} });
  const error = await agent.runAgent({ runId: 'r' }).then(
    () => undefined,
    (thrown: unknown) => (thrown as Error).message,
  );
  return { messages: agent.messages, state: agent.state as unknown, error };
}

/** The same events with pauses between them, through the operator. */
function coalesced(events: Events, pausesMs: readonly number[], options: DeltaOptions): AguiEvent[] {
  return virtualTime(({ advance, scheduler }) => {
    const source = new Subject<AguiEvent>();
    const seen: AguiEvent[] = [];
    coalesceEvents({ ...options, scheduler })(source).subscribe((event) => seen.push(event));
    events.forEach((event, i) => {
      advance(pausesMs[i % pausesMs.length] ?? 0);
      source.next(event);
    });
    source.complete();
    return seen;
  });
}

/** One agent of a run: itself (undefined), or a sub-agent. */
const owners = [undefined, 's1', 's2'] as const;
const tagged = (owner: string | undefined) => (owner === undefined ? {} : { subagentRunId: owner });

/** Texts of one agent, each piece an event; `isShort` sends them in the forms with CHUNK. Ids are its own. */
interface Texts {
  readonly owner: (typeof owners)[number];
  readonly isShort: boolean;
  /** Whether pieces in the short form say their id again. */
  readonly saysId: boolean;
  /** Which of the pieces say whose they are: it is enough that the first event does. */
  readonly tags: 'all' | 'some' | 'none';
  readonly pieces: readonly (readonly string[])[];
}

const piece = fc.constantFrom('a', 'b ', '', 'ü', '\u{1F600}', '"', '\n');
const pieces = fc.array(fc.array(piece, { maxLength: 8 }), { minLength: 1, maxLength: 4 });
const tags = fc.constantFrom('all' as const, 'some' as const, 'none' as const);
const texts = fc.record({ owner: fc.constantFrom(...owners), isShort: fc.boolean(), saysId: fc.boolean(), tags, pieces });
/** Two texts in the long form, or one in the short form: an agent can go on with one only. */
const ofOne = (owner: Texts['owner']) =>
  fc.oneof(
    fc.array(fc.record({ owner: fc.constant(owner), isShort: fc.constant(false), saysId: fc.constant(true), tags, pieces }), {
      maxLength: 2,
    }),
    fc.record({ owner: fc.constant(owner), isShort: fc.constant(true), saysId: fc.boolean(), tags, pieces }).map((text) => [text]),
  );
/** Sequences as agents send them, and some that break every rule. */
const agents = fc.oneof(
  { weight: 3, arbitrary: fc.tuple(...owners.map(ofOne)).map((all): Texts[] => all.flat()) },
  { weight: 1, arbitrary: fc.array<Texts>(texts, { minLength: 1, maxLength: 6 }) },
);

/** The kinds of text, by turns: a message, a call, a thought. */
const KINDS = [
  { start: 'TEXT_MESSAGE', id: 'messageId', delta: 'TEXT_MESSAGE_CONTENT', more: { role: 'assistant' } },
  { start: 'TOOL_CALL', id: 'toolCallId', delta: 'TOOL_CALL_ARGS', more: { toolCallName: 'look' } },
  { start: 'REASONING_MESSAGE', id: 'messageId', delta: 'REASONING_MESSAGE_CONTENT', more: { role: 'reasoning' } },
] as const;

function eventsOf({ owner, isShort, saysId, tags: which, pieces: all }: Texts, agent: number): AguiEvent[] {
  const isTagged = (i: number): boolean => which === 'all' || (which === 'some' && i % 2 === 0);
  return all.flatMap((deltas, index) => {
    const kind = KINDS[(index + agent) % KINDS.length] as (typeof KINDS)[number];
    const id = { [kind.id]: `${String(agent)}.${String(index)}` };
    const more = { ...kind.more, ...tagged(owner) };
    if (!isShort) {
      return [
        { type: `${kind.start}_START`, ...id, ...more },
        ...deltas.map((delta, i) => ({ type: kind.delta, ...id, delta, ...(isTagged(i) && tagged(owner)), ...extra(i) })),
        { type: `${kind.start}_END`, ...id, ...tagged(owner) },
      ];
    }
    const opener = kind.start === 'REASONING_MESSAGE' ? tagged(owner) : more;
    return [
      { type: `${kind.start}_CHUNK`, ...id, ...opener },
      ...deltas.map((delta, i) => ({
        type: `${kind.start}_CHUNK`,
        ...(saysId && id),
        delta,
        ...(isTagged(i) && tagged(owner)),
        ...extra(i),
      })),
    ];
  });
}

/** Some pieces carry more than text. */
function extra(index: number) {
  if (index % 5 === 4) return { metadata: { at: index, [`k${String(index)}`]: true } };
  return index % 7 === 6 ? { rawEvent: { index } } : {};
}

/** Events that are no text, and may stand between any two. */
const others = fc.constantFrom<AguiEvent>(
  { type: 'CUSTOM', name: 'n', value: 1 },
  { type: 'RAW', event: { x: 1 } },
  { type: 'STATE_DELTA', delta: [{ op: 'add', path: '/x', value: 1 }] },
  { type: 'ACTIVITY_SNAPSHOT', messageId: 'act', activityType: 'plan', content: { a: 1 }, replace: true },
);

/** Takes by turns from the lists, each in its order. */
function interleaved(lists: readonly Events[], turns: readonly number[]): AguiEvent[] {
  const left = lists.map((list) => [...list]);
  const all: AguiEvent[] = [];
  for (let i = 0; left.some((list) => list.length > 0); i++) {
    const open = left.filter((list) => list.length > 0);
    const next = open[(turns[i % turns.length] ?? 0) % open.length]?.shift();
    if (next !== undefined) all.push(next);
  }
  return all;
}

const run = fc
  .record({
    agents,
    others: fc.array(others, { maxLength: 4 }),
    turns: fc.array(fc.nat(20), { minLength: 1, maxLength: 60 }),
  })
  .map(
    ({ agents: all, others: between, turns }): Events => [
      { type: 'RUN_STARTED', threadId: 't', runId: 'r' },
      { type: 'STATE_SNAPSHOT', snapshot: {} },
      ...interleaved([...all.map(eventsOf), between], turns),
      { type: 'RUN_FINISHED', threadId: 't', runId: 'r' },
    ],
  );
const settings = fc.record({ maxWaitMs: fc.constantFrom(0, 5, 16, Infinity), maxChars: fc.constantFrom(1, 7, 4096, Infinity) });

beforeEach(() => {
  // What the client says of the sequences it refuses.
  vi.spyOn(console, 'error').mockReturnValue(undefined);
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});
afterEach(() => {
  vi.restoreAllMocks();
});

describe.each(versions)('coalesced events, to @ag-ui/client %s', (_version, client) => {
  it('make the same messages and the same state, whatever comes between whatever else', async () => {
    let accepted = 0;
    await fc.assert(
      fc.asyncProperty(run, fc.array(fc.nat(12), { minLength: 1, maxLength: 20 }), settings, async (events, pausesMs, options) => {
        const before = (await outcomeOf(client, events)) as { error: unknown };
        const after = coalesced(events, pausesMs, options);
        expect(await outcomeOf(client, after)).toEqual(before);
        if (before.error === undefined) accepted++;
      }),
      { numRuns: sized(15, 1000) },
    );
    // Without sequences that the AG-UI client accepts, the property would prove nothing.
    expect(accepted).toBeGreaterThan(sized(4, 400));
  }, 120_000);
});

describe('coalesceEvents', () => {
  const whole = (...events: AguiEvent[]) => coalesced(events, [0], { maxWaitMs: Infinity });
  const text = (messageId: string, delta: string, more: object = {}): AguiEvent => ({
    type: 'TEXT_MESSAGE_CONTENT',
    messageId,
    delta,
    ...more,
  });

  it('makes one event of each text that comes by turns with others', () => {
    const turns = Array.from({ length: 300 }, (_, i) => [
      text('a', String(i)),
      text('b', String(i)),
      { type: 'TOOL_CALL_ARGS', toolCallId: 'c', delta: String(i) },
      { type: 'TOOL_CALL_ARGS', toolCallId: 'd', delta: String(i), subagentRunId: 's1' },
      { type: 'REASONING_MESSAGE_CONTENT', messageId: 'e', delta: String(i), subagentRunId: 's2' },
    ]);
    const seen = whole(...turns.flat());
    expect(seen.map(({ messageId, toolCallId, subagentRunId }) => [messageId ?? toolCallId, subagentRunId])).toEqual([
      ['a', undefined],
      ['b', undefined],
      ['c', undefined],
      ['d', 's1'],
      ['e', 's2'],
    ]);
    expect(new Set(seen.map(({ delta }) => delta))).toEqual(new Set([turns.map((_, i) => String(i)).join('')]));
  });

  it('merges metadata as the client does, and keeps the last timestamp', () => {
    const first = text('a', '1', { timestamp: 1, metadata: { x: 1, y: 1 } });
    const next = text('a', '2', { timestamp: 2, metadata: { y: 2, z: 2 } });
    expect(whole(first, next, text('a', '3'))).toEqual([text('a', '123', { timestamp: 2, metadata: { x: 1, y: 2, z: 2 } })]);
    expect(first).toEqual(text('a', '1', { timestamp: 1, metadata: { x: 1, y: 1 } }));
  });

  it.each<[string, AguiEvent]>([
    ['a payload of its provider', text('a', '2', { rawEvent: { id: 1 } })],
    ['an unknown field with something in it', text('a', '2', { logprobs: [1] })],
    ['another value of an unknown field', text('a', '2', { model: 'm' })],
    ['metadata that is no object', text('a', '2', { metadata: 'x' })],
    ['an owner that is null', text('a', '2', { subagentRunId: null })],
    ['another owner', text('a', '2', { subagentRunId: 's' })],
    ['no text', { type: 'TEXT_MESSAGE_CONTENT', messageId: 'a', delta: 2 }],
    ['a delta that is no text', { type: 'STATE_DELTA', delta: [] }],
    ['a short form', { type: 'TEXT_MESSAGE_CHUNK', messageId: 'a', delta: '2' }],
    ['a thought with the same id', { type: 'REASONING_MESSAGE_CONTENT', messageId: 'a', delta: '2' }],
  ])('keeps %s in its place', (_name, between) => {
    const seen = whole(text('a', '1'), text('a', '+'), between, text('a', '3'), text('a', '+'));
    expect(seen).toEqual([text('a', '1+'), between, text('a', '3+')]);
  });

  it('merges neighbours in the short form, and nothing else of it', () => {
    const short = (delta: string, more: object = {}): AguiEvent => ({ type: 'TOOL_CALL_CHUNK', delta, ...more });
    const opening = short('{', { toolCallId: 'c', toolCallName: 'look' });
    const seen = whole(
      opening,
      short('"a"'),
      short(':'),
      short('1', { subagentRunId: 's' }),
      short('2'),
      short('}'),
      text('m', 'x'),
      text('m', 'y'),
    );
    expect(seen).toEqual([opening, short('"a":'), short('1', { subagentRunId: 's' }), short('2}'), text('m', 'xy')]);
  });

  it('lets go what waits when its time has come, its characters are full, and at the end', () => {
    virtualTime(({ advance, scheduler, now }) => {
      const source = new Subject<AguiEvent>();
      const seen: unknown[] = [];
      const broken = new Error('broken');
      coalesceEvents({ maxWaitMs: 10, maxChars: 4, scheduler })(source).subscribe({
        next: ({ delta }) => seen.push([now(), delta]),
        error: (error: unknown) => seen.push([now(), error]),
      });
      source.next(text('a', 'x'));
      advance(9);
      source.next(text('a', 'y'));
      advance(11);
      source.next(text('a', '12'));
      source.next(text('b', '34'));
      source.next(text('a', 'z'));
      source.error(broken);
      expect(seen).toEqual([
        [10, 'xy'],
        [20, '12'],
        [20, '34'],
        [20, 'z'],
        [20, broken],
      ]);
    });
  });
});
