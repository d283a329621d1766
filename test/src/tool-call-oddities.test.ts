import fc from 'fast-check';
import { catchError, EMPTY, from, lastValueFrom, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { assembleToolCalls, createAgentTurn, createToolRunner, defineTool, isFlowError } from '../../src/index.js';
import { sized } from '../support/deep.js';
import { cutAt, PROTOCOLS } from './tool-call-streams.js';

interface Ran {
  readonly name: string;
  readonly args: unknown;
}

interface Outcome {
  /** What tools were executed with. */
  readonly ran: readonly Ran[];
  /** Ids of calls whose result says that they failed, or that were not finished. */
  readonly told: readonly string[];
}

const NAMES = ['search', 'remove'] as const;

async function outcomeOf(events: readonly unknown[]): Promise<Outcome> {
  const ran: Ran[] = [];
  const told: string[] = [];
  const tools = NAMES.map((name) =>
    defineTool({
      name,
      description: 'Takes any object.',
      parameters: z.record(z.string(), z.unknown()),
      execute: (args) => {
        ran.push({ name, args });
        return 'done';
      },
    }),
  );
  const calls = from(events).pipe(
    assembleToolCalls(),
    catchError((error: unknown) => {
      if (!isFlowError(error, 'FLOW_TOOL_CALL_UNFINISHED')) throw error;
      told.push(...error.ids);
      return EMPTY;
    }),
  );
  const results = await lastValueFrom(calls.pipe(createToolRunner({ tools }).mapCalls(), toArray()));
  for (const { tool_use_id, is_error } of results) if (is_error) told.push(tool_use_id);
  return { ran, told };
}

type Placing = 'own' | 'none' | 'same' | 'grows';

interface Plan {
  readonly calls: readonly { readonly name: (typeof NAMES)[number]; readonly text: string; readonly cuts: readonly number[] }[];
  readonly placing: Placing;
  readonly isDoubled: boolean;
  readonly idEverywhere: boolean;
  readonly nameCut: number;
  readonly firstInBegin: boolean;
}

/** Numbers of one digit: where digits are doubled, nothing but the doubling says so. */
const args = fc.oneof(
  fc.dictionary(fc.constantFrom('q', 'n', 'a b'), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }),
  fc.record({ days: fc.nat({ max: 99 }) }),
);
const plans: fc.Arbitrary<Plan> = fc.record({
  calls: fc.array(
    fc.record({
      name: fc.constantFrom(...NAMES),
      text: args.map((input) => JSON.stringify(input)),
      cuts: fc.array(fc.nat({ max: 40 }), { maxLength: 8 }),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  placing: fc.constantFrom<Placing[]>('own', 'none', 'same', 'grows'),
  isDoubled: fc.boolean(),
  idEverywhere: fc.boolean(),
  nameCut: fc.nat({ max: 5 }),
  firstInBegin: fc.boolean(),
});

const idOf = (i: number): string => `call_${String(i)}`;
const piecesOf = ({ text, cuts }: Plan['calls'][number]): readonly string[] => cutAt(text, cuts).filter((piece) => piece !== '');
const twice = <T>(list: readonly T[], isDoubled: boolean): readonly T[] => (isDoubled ? list.flatMap((each) => [each, each]) : list);

function chatEvents({ calls, placing, isDoubled, idEverywhere, nameCut, firstInBegin }: Plan): readonly object[] {
  let count = 0;
  const events: object[] = [];
  for (const [i, call] of calls.entries()) {
    const say = (piece: object): void => {
      const index = { own: i, same: 0, grows: count++, none: undefined }[placing];
      events.push({ choices: [{ index: 0, delta: { tool_calls: [{ ...(index !== undefined && { index }), ...piece }] } }] });
    };
    const id = idOf(i);
    const rest = [...piecesOf(call)];
    const names = [call.name.slice(0, nameCut), call.name.slice(nameCut)].filter((piece) => piece !== '');
    for (const [n, name] of names.entries()) {
      const isLast = n === names.length - 1;
      const given = isLast && firstInBegin ? rest.shift() : '';
      say({ ...((n === 0 || idEverywhere) && { id }), function: { name, arguments: given } });
    }
    for (const given of rest) say({ ...(idEverywhere && { id }), function: { arguments: given } });
  }
  return [...twice(events, isDoubled), { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }];
}

/** Events of the other protocols, with other places; what has ids of its own is known by those. */
function otherEvents(protocol: string, { calls, placing, isDoubled }: Plan): readonly object[] {
  const { before, call, after } = PROTOCOLS[protocol] as (typeof PROTOCOLS)[string];
  let count = 0;
  const events = calls.flatMap((one, i) => {
    const input: unknown = JSON.parse(one.text);
    return call({ id: idOf(i), name: one.name, input }, i, piecesOf(one)).map((event) => {
      const field = 'output_index' in event ? 'output_index' : 'index' in event ? 'index' : undefined;
      if (field === undefined || placing === 'own') return event;
      const { [field]: _, ...rest } = event as Record<string, unknown>;
      return placing === 'none' ? rest : { ...rest, [field]: placing === 'same' ? 0 : count++ };
    });
  });
  return [...before(calls.length), ...twice(events, isDoubled), ...after(false)];
}

/** Whether there is nothing in the stream that can be read in two ways. */
const isPlain = ({ isDoubled, placing, calls, nameCut }: Plan): boolean =>
  !isDoubled && (placing !== 'grows' || (calls.length === 1 && nameCut === 0));

async function check(plan: Plan, events: readonly object[], mustRun: boolean): Promise<void> {
  const { ran, told } = await outcomeOf(events);
  const wanted = plan.calls.map(({ name, text }) => JSON.stringify({ name, args: JSON.parse(text) as unknown })).sort();
  const left = [...wanted];
  for (const each of ran) {
    const at = left.indexOf(JSON.stringify(each));
    expect(at, `ran ${JSON.stringify(each)}, the model wanted ${wanted.join(' ')}`).toBeGreaterThanOrEqual(0);
    left.splice(at, 1);
  }
  if (mustRun) expect({ left, told }).toEqual({ left: [], told: [] });
  // What did not run is told.
  else if (left.length > 0) expect(told.length).toBeGreaterThan(0);
}

describe('whatever way a server streams a call, a tool runs with the arguments of the model or not at all', () => {
  it('in chat completions', async () => {
    await fc.assert(
      fc.asyncProperty(plans, (plan) => check(plan, chatEvents(plan), isPlain(plan))),
      { numRuns: sized(500, 5000) },
    );
  });

  it.each(['the Responses API', 'Anthropic', 'AG-UI', 'AG-UI in chunks'])('in %s', async (protocol) => {
    await fc.assert(
      fc.asyncProperty(plans, (plan) => check(plan, otherEvents(protocol, plan), isPlain(plan))),
      { numRuns: sized(300, 3000) },
    );
  });
});

describe('what no reading is certain of', () => {
  const chunk = (...tool_calls: readonly object[]): object => ({ choices: [{ index: 0, delta: { tool_calls } }] });
  const fn = (name?: string, given?: string): object => ({
    function: { ...(name && { name }), ...(given !== undefined && { arguments: given }) },
  });
  const end = { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] };
  const begun = (index: number, id: string, name: string, given = ''): object => chunk({ index, id, ...fn(name, given) });

  it.each<[string, readonly object[], readonly string[]]>([
    [
      'a piece at an unknown place, with two open calls',
      [begun(0, 'a', 'remove'), begun(1, 'b', 'search'), chunk({ index: 2, ...fn(undefined, '{"n":1}') }), end],
      ['a', 'b'],
    ],
    [
      'a piece behind an empty object, where pieces are counted',
      [begun(0, 'a', 'remove', '{}'), chunk({ index: 1, ...fn(undefined, '{"n":1}') }), end],
      ['a'],
    ],
    [
      'pieces of two calls by turns at one place',
      [
        begun(0, 'a', 'remove'),
        begun(0, 'b', 'search'),
        chunk({ index: 0, ...fn(undefined, '{"n":1}') }),
        chunk({ index: 0, ...fn(undefined, '{"q":2}') }),
        end,
      ],
      ['a', 'b'],
    ],
    [
      'all pieces twice, where both readings are JSON',
      [begun(0, 'a', 'remove'), ...['{"n":', '{"n":', '1', '1', '}', '}'].map((text) => chunk({ index: 0, ...fn(undefined, text) })), end],
      ['a'],
    ],
    [
      'arguments of AG-UI without an id, with two open calls',
      [
        { type: 'TOOL_CALL_START', toolCallId: 'a', toolCallName: 'remove' },
        { type: 'TOOL_CALL_START', toolCallId: 'b', toolCallName: 'search' },
        { type: 'TOOL_CALL_ARGS', delta: '{"n":1}' },
        { type: 'TOOL_CALL_END', toolCallId: 'a' },
        { type: 'TOOL_CALL_END', toolCallId: 'b' },
        { type: 'RUN_FINISHED' },
      ],
      ['a', 'b'],
    ],
    [
      'a call of the Responses API whose end nothing told',
      [
        {
          type: 'response.output_item.added',
          output_index: 0,
          item: { type: 'function_call', id: 'f', call_id: 'a', name: 'remove', arguments: '' },
        },
        { type: 'response.completed', response: {} },
      ],
      ['a'],
    ],
  ])('%s: the calls are told, and not run', async (_what, events, ids) => {
    const { ran, told } = await outcomeOf(events);
    expect(ran).toEqual([]);
    expect(told).toEqual(expect.arrayContaining([...ids]));
  });

  it.each<[string, readonly object[]]>([
    [
      'an empty `finish_reason` in every chunk',
      [
        { choices: [{ index: 0, delta: { tool_calls: [{ index: 0, id: 'a', ...fn('remove', '') }] }, finish_reason: '' }] },
        chunk({ index: 0, ...fn(undefined, '{"n":1}') }),
        end,
      ],
    ],
    ['the whole call twice', [begun(0, 'a', 'remove', '{"n":1}'), begun(0, 'a', 'remove', '{"n":1}'), end]],
    [
      'empty arguments at the end of an item whose pieces came',
      [
        {
          type: 'response.output_item.added',
          output_index: 0,
          item: { type: 'function_call', id: 'f', call_id: 'a', name: 'remove', arguments: '' },
        },
        { type: 'response.function_call_arguments.delta', output_index: 0, item_id: 'f', delta: '{"n":1}' },
        {
          type: 'response.output_item.done',
          output_index: 0,
          item: { type: 'function_call', id: 'f', call_id: 'a', name: 'remove', arguments: '' },
        },
      ],
    ],
    [
      'arguments of AG-UI without an id',
      [
        { type: 'TOOL_CALL_START', toolCallId: 'a', toolCallName: 'remove' },
        { type: 'TOOL_CALL_ARGS', delta: '{"n":1}' },
        { type: 'TOOL_CALL_END', toolCallId: 'a' },
      ],
    ],
    [
      'a call of AG-UI whose end was left out',
      [
        { type: 'TOOL_CALL_START', toolCallId: 'a', toolCallName: 'remove' },
        { type: 'TOOL_CALL_ARGS', toolCallId: 'a', delta: '{"n":1}' },
        { type: 'RUN_FINISHED' },
      ],
    ],
  ])('%s: the call runs once', async (_what, events) => {
    expect(await outcomeOf(events)).toEqual({ ran: [{ name: 'remove', args: { n: 1 } }], told: [] });
  });
});

describe('a turn of an agent tells how its model ended', () => {
  const lastOf = (events: readonly object[]) => lastValueFrom(createAgentTurn({ model: () => from(events) }).ask('hi'));
  const chat = (delta: object, finish_reason: string | null = null): object => ({ choices: [{ index: 0, delta, finish_reason }] });
  const said = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'half' } };
  const begun = { type: 'message_start', message: { usage: {} } };
  const ended = (stop_reason: string): object[] => [{ type: 'message_delta', delta: { stop_reason }, usage: {} }, { type: 'message_stop' }];
  const word = { type: 'response.output_text.delta', delta: 'half' };
  const created = { type: 'response.created', response: {} };

  it.each<[string, readonly object[], string | undefined]>([
    ['chat, an end', [chat({ content: 'half' }), chat({}, 'stop')], undefined],
    ['chat, the longest length', [chat({ content: 'half' }), chat({}, 'length')], 'length'],
    ['chat, a filter', [chat({ content: 'half' }), chat({}, 'content_filter')], 'content_filter'],
    ['chat, a refusal', [chat({ refusal: 'half' }), chat({}, 'stop')], 'refusal'],
    ['chat, nothing', [chat({ content: '' }), chat({}, 'stop')], 'empty'],
    ['Anthropic, an end', [begun, said, ...ended('end_turn')], undefined],
    ['Anthropic, the longest length', [begun, said, ...ended('max_tokens')], 'length'],
    ['Anthropic, a refusal', [begun, said, ...ended('refusal')], 'refusal'],
    ['Responses, an end', [created, word, { type: 'response.completed', response: {} }], undefined],
    [
      'Responses, the longest length',
      [created, word, { type: 'response.incomplete', response: { incomplete_details: { reason: 'max_output_tokens' } } }],
      'length',
    ],
    [
      'Responses, a refusal',
      [created, { type: 'response.refusal.delta', delta: 'no' }, { type: 'response.completed', response: {} }],
      'refusal',
    ],
  ])('%s', async (_what, events, fault) => {
    const last = await lastOf(events);
    expect(last).toMatchObject({ type: 'finished', ...(fault !== undefined && { fault }) });
    if (fault === undefined) expect(last).not.toHaveProperty('fault');
  });

  it.each<[string, readonly object[], string]>([
    ['Anthropic', [begun, said], '`message_stop`'],
    ['Responses', [created, word], '`response.completed`'],
  ])('%s, cut off', async (_what, events, finish) => {
    const message = `the stream was cut off: it ended without ${finish}`;
    expect(await lastOf(events)).toMatchObject({ type: 'failed', error: { code: 'ERR_STREAM_PREMATURE_CLOSE', message } });
  });
});
