import Anthropic from '@anthropic-ai/sdk';
import fc from 'fast-check';
import OpenAI from 'openai';
import type { Observable } from 'rxjs';
import { concat, from, lastValueFrom, of, Subject, take, throwError, toArray } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { fromStream } from '../../operators/index.js';
import type { ToolCall, ToolResult } from '../../src/index.js';
import { assembleToolCalls, createToolRunner, isFlowError, ProviderError, toToolResults } from '../../src/index.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { tool } from '../pipelines/tool-kit.js';
import { sized } from '../support/deep.js';
import { cutAt, interleaved, PROTOCOLS } from './tool-call-streams.js';

interface Heard {
  readonly calls: readonly ToolCall[];
  readonly error?: unknown;
}

/** What becomes of these events, all at once. */
function heard(events: readonly unknown[] | Observable<unknown>): Heard {
  const calls: ToolCall[] = [];
  let error: unknown;
  from(events)
    .pipe(assembleToolCalls())
    .subscribe({
      next: (call) => calls.push(call),
      error: (thrown: unknown) => {
        error = thrown;
      },
    });
  return { calls, ...(error !== undefined && { error }) };
}

function byId(calls: readonly ToolCall[]): readonly ToolCall[] {
  return calls.toSorted((a, b) => Number(a.id.slice(5)) - Number(b.id.slice(5)));
}

const json = fc
  .dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 })
  .map((input) => JSON.stringify(input));
const plan = fc.record({
  inputs: fc.array(json, { maxLength: 4 }),
  cuts: fc.array(fc.array(fc.nat({ max: 60 }), { maxLength: 6 }), { minLength: 4, maxLength: 4 }),
  turns: fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 30 }),
});

/** A copy with something else in some places: `of` is asked about each value, also those that others are made of. */
function changed(value: unknown, of: (value: unknown) => unknown): unknown {
  const now = of(value);
  if (now !== value || typeof value !== 'object' || value === null) return now;
  if (Array.isArray(value)) return value.map((part) => changed(part, of));
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, changed(part, of)]));
}

const callsOf = (inputs: readonly string[]): readonly ToolCall[] =>
  inputs.map((input, i) => ({ id: `call_${String(i)}`, name: `tool_${String(i % 2)}`, input: JSON.parse(input) as unknown }));

describe.each(Object.entries(PROTOCOLS))('%s', (_name, { before, call, after }) => {
  const events = ({ inputs, cuts, turns }: typeof plan extends fc.Arbitrary<infer P> ? P : never, isCut = false): readonly object[] => {
    const calls = callsOf(inputs);
    const each = calls.map((one, i) => call(one, i, cutAt(inputs[i] as string, cuts[i] ?? [])));
    return [...before(calls.length), ...interleaved(each, turns), ...after(isCut)];
  };

  it('gives the same calls however they are cut and interleaved', () => {
    fc.assert(
      fc.property(plan, (given) => {
        const { calls, error } = heard(events(given));
        expect(error).toBeUndefined();
        expect(byId(calls)).toEqual(callsOf(given.inputs));
      }),
    );
  });

  it('gives nothing but whole calls, and the ids of the others, wherever the stream ends or is cut off', () => {
    fc.assert(
      fc.property(plan, fc.nat({ max: 200 }), fc.boolean(), (given, at, isCut) => {
        const all = events(given, isCut);
        const some = all.slice(0, at % (all.length + 1));
        const { calls, error } = heard(isCut ? [...some, ...after(true)] : some);
        const wanted = callsOf(given.inputs);
        for (const found of calls) expect(wanted).toContainEqual(found);
        const ids = isFlowError(error, 'FLOW_TOOL_CALL_UNFINISHED') ? error.ids : [];
        expect(error === undefined).toBe(ids.length === 0);
        expect(new Set([...calls.map(({ id }) => id), ...ids]).size).toBe(calls.length + ids.length);
        const begun = wanted.filter(({ id }) => some.some((event) => JSON.stringify(event).includes(`"${id}"`)));
        expect([...calls.map(({ id }) => id), ...ids].sort()).toEqual(begun.map(({ id }) => id).sort());
      }),
    );
  });

  it('gives the same calls where arguments come as they are and not as JSON', () => {
    fc.assert(
      fc.property(plan, fc.infiniteStream(fc.boolean()), (given, isParsed) => {
        const parsed = changed(events({ ...given, cuts: [] }), (value) => {
          return typeof value === 'string' && given.inputs.includes(value) && isParsed.next().value ? JSON.parse(value) : value;
        });
        const { calls, error } = heard(parsed as readonly object[]);
        expect(error).toBeUndefined();
        expect(byId(calls)).toEqual(callsOf(given.inputs));
      }),
    );
  });

  it('makes no empty arguments of anything but an object', () => {
    for (const value of [5, 0, false, true, [1], [{ x: 1 }]]) {
      const stream = [...before(1), ...call({ id: 'a', name: 'read', input: undefined }, 0, ['HERE']), ...after(false)];
      const { calls } = heard(changed(stream, (old) => (old === 'HERE' ? value : old)) as readonly object[]);
      expect(calls).toEqual([{ id: 'a', name: 'read', input: value }]);
    }
  });

  it('says nothing raw of events with anything in them, and gives no call without an id and a name', () => {
    const junk = fc.constantFrom<unknown>(undefined, null, 0, 7, true, '', 'x', {}, [], [null], ['x'], [[]], { x: 1 }, { length: 1 });
    fc.assert(
      fc.property(plan, fc.nat(), junk, (given, at, value) => {
        let count = 0;
        changed(events(given), (old) => (count++, old));
        // Not the list itself.
        let place = 1 + (at % (count - 1));
        const { calls, error } = heard(changed(events(given), (old) => (place-- === 0 ? value : old)) as readonly object[]);
        expect(error === undefined || isFlowError(error) || error instanceof ProviderError, String(error)).toBe(true);
        expect(calls.flatMap(({ id, name }) => [id, name]).filter((word) => typeof word !== 'string' || word === '')).toEqual([]);
      }),
      { numRuns: sized(60, 200) },
    );
  });

  it('takes what the model ended and is no JSON as a text, and nothing as no arguments', () => {
    const broken = { id: 'call_0', name: 'read', input: undefined };
    const stream = (text: string): readonly object[] => [...before(1), ...call(broken, 0, [text]), ...after(false)];
    expect(heard(stream('{"path":')).calls).toEqual([{ id: 'call_0', name: 'read', input: '{"path":' }]);
    expect(heard(stream('')).calls).toEqual([{ id: 'call_0', name: 'read', input: {} }]);
  });

  it('passes the error of its source behind the calls that are whole', () => {
    const failure = new Error('cut');
    const { calls, error } = heard(
      concat(
        of(...before(1), ...call({ id: 'a', name: 'b', input: 1 }, 0, ['{}'])),
        throwError(() => failure),
      ),
    );
    expect(error).toBe(failure);
    expect(calls.length).toBeLessThanOrEqual(1);
  });

  it('stops with arguments that never end', () => {
    const source = new Subject<object>();
    const errors: unknown[] = [];
    source.pipe(assembleToolCalls()).subscribe({ error: (error: unknown) => errors.push(error) });
    const [begin, ...others] = call({ id: 'a', name: 'b', input: 1 }, 0, ['', 'x'.repeat(100_000)]) as readonly [object, ...object[]];
    const piece = others.find((event) => JSON.stringify(event).includes('xx')) as object;
    source.next(begin);
    for (let i = 0; i < 100 && source.observed; i++) source.next(piece);
    expect(errors.map((error) => isFlowError(error, 'FLOW_ITEM_TOO_HEAVY'))).toEqual([true]);
  });

  it('holds no call for the next subscriber', () => {
    const [first] = call({ id: 'a', name: 'b', input: 1 }, 0, ['{', '}']) as readonly [object];
    const stream = of(first).pipe(assembleToolCalls());
    const errors: unknown[] = [];
    for (let i = 0; i < 2; i++) stream.subscribe({ error: (error: unknown) => errors.push((error as { ids: unknown }).ids) });
    expect(errors).toEqual([['a'], ['a']]);
  });
});

describe('what servers do', () => {
  const chat = (calls: readonly object[], finish_reason?: string): object => ({
    choices: [{ index: 0, delta: { tool_calls: calls }, finish_reason }],
  });
  const END = chat([], 'tool_calls');
  const a = { id: 'a', name: 'read', input: { x: 1 } };
  const b = { id: 'b', name: 'read', input: { y: 2 } };
  const whole = (id: string, text: string, index?: number): object => ({
    ...(index !== undefined && { index }),
    id,
    function: { name: 'read', arguments: text },
  });

  it.each<[string, readonly unknown[], readonly ToolCall[]]>([
    ['the same index for all', [chat([whole('a', '{"x":1}', 0)]), chat([whole('b', '{"y":2}', 0)]), END], [a, b]],
    ['no index at all', [chat([whole('a', '{"x":1}'), whole('b', '{"y":2}')]), END], [a, b]],
    ['a new id with every piece', [chat([whole('a', '{"x":', 0)]), chat([{ index: 0, id: 'z', function: { arguments: '1}' } }]), END], [a]],
    ['the id and name with every piece', [chat([whole('a', '{"x":', 0)]), chat([whole('a', '1}', 0)]), END], [a]],
    [
      'an empty id in later pieces',
      [chat([whole('a', '{"x":', 0)]), chat([{ index: 0, id: '', function: { name: '', arguments: '1}' } }]), END],
      [a],
    ],
    ['no index, and pieces', [chat([whole('a', '{"x":')]), chat([{ function: { arguments: '1}' } }]), END], [a]],
    ['indices from 1', [chat([whole('a', '{"x":1}', 1)]), END], [a]],
    ['`stop` for a reason', [chat([whole('a', '{"x":1}', 0)], 'stop')], [a]],
    ['no reason, but an end', [chat([whole('a', '{"x":1}', 0)])], [a]],
    [
      'a tool that takes a text',
      [
        chat([{ index: 0, id: 'a', type: 'custom', custom: { name: 'sh', input: '{"x"' } }]),
        chat([{ index: 0, custom: { input: ':1}' } }]),
        END,
      ],
      [{ id: 'a', name: 'sh', input: '{"x":1}' }],
    ],
    ['arguments that are no list', [chat({ index: 0, id: 'a' } as never), chat('x' as never), chat(7 as never), END], []],
    ['an empty object before the text', [chat([whole('a', {} as never, 0)]), chat([whole('', '{"x":1}', 0)]), END], [a]],
    [
      'no id in the Responses API',
      [{ type: 'response.output_item.done', output_index: 0, item: { type: 'function_call', name: 'read', arguments: '{"x":1}' } }],
      [{ ...a, id: 'no_id_1' }],
    ],
    [
      'no id of Anthropic',
      [
        { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', name: 'read', input: { x: 1 } } },
        { type: 'content_block_stop', index: 0 },
      ],
      [{ ...a, id: 'no_id_1' }],
    ],
    ['another choice', [{ choices: [{ index: 1, delta: { tool_calls: [whole('a', '{}', 0)] }, finish_reason: 'tool_calls' }] }], []],
    [
      'things that are no events',
      [
        null,
        undefined,
        5,
        'text',
        [],
        {},
        { type: 7 },
        { choices: null },
        { choices: [null] },
        { choices: [{}] },
        { choices: [{ delta: null }] },
        { type: 'toolCall' },
        { type: 'toolCall', call: 'x' },
        { type: 'content_block_start' },
        { type: 'response.output_item.done' },
        { type: 'TOOL_CALL_END' },
        { type: 'TOOL_CALL_ARGS', delta: 'x' },
      ],
      [],
    ],
    [
      'only the end of an item',
      [
        {
          type: 'response.output_item.done',
          output_index: 0,
          item: { type: 'function_call', call_id: 'a', name: 'read', arguments: '{"x":1}' },
        },
      ],
      [a],
    ],
    [
      'a custom tool of the Responses API',
      [
        { type: 'response.output_item.added', output_index: 0, item: { type: 'custom_tool_call', call_id: 'a', name: 'sh', input: '' } },
        { type: 'response.custom_tool_call_input.delta', output_index: 0, delta: 'ls' },
        { type: 'response.output_item.done', output_index: 0, item: { type: 'custom_tool_call', call_id: 'a', name: 'sh', input: 'ls' } },
      ],
      [{ id: 'a', name: 'sh', input: 'ls' }],
    ],
    [
      'tools that the provider runs',
      [
        { type: 'content_block_start', index: 0, content_block: { type: 'server_tool_use', id: 'a', name: 'web_search', input: {} } },
        { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{}' } },
        { type: 'content_block_stop', index: 0 },
        { type: 'response.output_item.done', item: { type: 'web_search_call', id: 'w' } },
      ],
      [],
    ],
    [
      'the whole input at the start of a block',
      [
        { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', ...a } },
        { type: 'content_block_stop', index: 0 },
      ],
      [a],
    ],
    [
      'chunks without an id behind the first',
      [
        { type: 'TOOL_CALL_CHUNK', toolCallId: 'a', toolCallName: 'read', delta: '{"x"' },
        { type: 'TOOL_CALL_CHUNK', delta: ':1}' },
        { type: 'TEXT_MESSAGE_CHUNK', delta: 'so' },
      ],
      [a],
    ],
    [
      'space behind the end of a call in chunks',
      [
        { type: 'TOOL_CALL_CHUNK', toolCallId: 'a', toolCallName: 'read', delta: '{"x":1}' },
        { type: 'CUSTOM' },
        { type: 'TOOL_CALL_CHUNK', toolCallId: 'a', delta: '\n' },
      ],
      [a],
    ],
  ])('%s', (_what, events, calls) => {
    expect(heard(events)).toEqual({ calls });
  });

  it.each<[string, (index: number) => object]>([
    ['an index each', (index) => ({ index })],
    ['the same index', () => ({ index: 0 })],
    ['no index', () => ({})],
  ])('no ids, and %s', (_what, placed) => {
    fc.assert(
      fc.property(plan, fc.constantFrom({}, { id: '' }, { id: null }), ({ inputs, cuts, turns }, noId) => {
        const each = inputs.map((input, i) => {
          const pieces = cutAt(input, cuts[i] ?? []).filter((piece) => piece !== '');
          return pieces.map((text, n) =>
            chat([{ ...placed(i), ...noId, function: { ...(n === 0 && { name: `tool_${String(i % 2)}` }), arguments: text } }]),
          );
        });
        // Without an index, nothing says which call a piece of another one is of.
        const events = _what === 'an index each' ? interleaved(each, turns) : each.flat();
        const { calls, error } = heard([...events, END]);
        expect(error).toBeUndefined();
        const ids = inputs.map((_, i) => `no_id_${String(i + 1)}`);
        expect(calls.map(({ id }) => id)).toEqual(ids);
        // Where the answer is cut off those that are not whole are named as well, behind the others.
        const cut = heard(events);
        const unfinished = isFlowError(cut.error, 'FLOW_TOOL_CALL_UNFINISHED') ? cut.error.ids : [];
        expect([...cut.calls.map(({ id }) => id), ...unfinished]).toEqual(ids);
        for (const id of unfinished) expect((cut.error as Error).message).toContain(`\`${id}\``);
        expect(calls.map(({ name, input }) => JSON.stringify([name, input])).sort()).toEqual(
          callsOf(inputs)
            .map(({ name, input }) => JSON.stringify([name, input]))
            .sort(),
        );
      }),
    );
  });

  it.each<[string, object, object]>([
    ['chat completions', { error: { message: 'overloaded', code: 503 } }, { status: 503 }],
    [
      'the Responses API',
      { type: 'response.failed', response: { error: { code: 'server_error', message: 'overloaded' } } },
      { code: 'server_error' },
    ],
    ['the Responses API, at once', { type: 'error', code: 'server_error', message: 'overloaded' }, { code: 'server_error' }],
    ['Anthropic', { type: 'error', error: { type: 'overloaded_error', message: 'overloaded' } }, { type: 'overloaded_error' }],
    ['AG-UI', { type: 'RUN_ERROR', message: 'overloaded', code: 'network' }, { code: 'network' }],
  ])('an error of %s is the error of the stream', (_protocol, event, fields) => {
    const { error } = heard([event]);
    expect(error).toBeInstanceOf(ProviderError);
    expect(error).toMatchObject({ message: 'overloaded', ...fields });
  });

  it('leaving at the first call leaves the source', () => {
    const source = new Subject<unknown>();
    const seen: ToolCall[] = [];
    source.pipe(assembleToolCalls(), take(1)).subscribe((call) => seen.push(call));
    source.next(chat([whole('a', '{"x":1}', 0), whole('b', '{"y":2}', 1)], 'tool_calls'));
    expect(seen).toEqual([a]);
    expect(source.observed).toBe(false);
  });
});

describe('with the real clients', () => {
  let api: ModelApi;
  afterEach(() => api.stop());
  const asked = 'CALL read {"path":"docs/a.md","lines":[1,2]}';
  const input = { path: 'docs/a.md', lines: [1, 2] };
  const runner = createToolRunner({ tools: [tool('read', () => 'four')] });

  it('of OpenAI: the chat asks for a tool, and gets its result back', async () => {
    api = await startModelApi({ chunks: 9 });
    const client = new OpenAI({ baseURL: api.baseUrl, apiKey: 'k', maxRetries: 0 });
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: asked }];
    const stream = fromStream((signal) => client.chat.completions.create({ model: 'm', messages, stream: true }, { signal }));
    const calls = await lastValueFrom(stream.pipe(assembleToolCalls(), toArray()));
    expect(calls).toEqual([{ id: 'call_1', name: 'read', input }]);
    const { results } = await runner.runAllAsync(calls);
    const called = calls.map(({ id, name, input: args }) => ({
      id,
      type: 'function' as const,
      function: { name, arguments: JSON.stringify(args) },
    }));
    messages.push({ role: 'assistant', tool_calls: called }, ...toToolResults(results, 'chat'));
    const { choices } = await client.chat.completions.create({ model: 'm', messages });
    expect(choices[0]?.message.content).toBe('four');
  });

  it('of OpenAI: the Responses API does', async () => {
    api = await startModelApi({ chunks: 9 });
    const client = new OpenAI({ baseURL: api.baseUrl, apiKey: 'k', maxRetries: 0 });
    const items: OpenAI.Responses.ResponseInput = [{ role: 'user', content: asked }];
    const stream = fromStream((signal) => client.responses.create({ model: 'm', input: items, stream: true }, { signal }));
    const calls = await lastValueFrom(stream.pipe(assembleToolCalls(), toArray()));
    expect(calls).toEqual([{ id: 'call_1', name: 'read', input }]);
    const { results } = await runner.runAllAsync(calls);
    for (const { id, name, input: args } of calls)
      items.push({ type: 'function_call', call_id: id, name, arguments: JSON.stringify(args) });
    items.push(...toToolResults(results, 'responses'));
    const { output_text } = await client.responses.create({ model: 'm', input: items });
    expect(output_text).toBe('four');
  });

  it('of Anthropic', async () => {
    api = await startModelApi({ chunks: 9 });
    const client = new Anthropic({ baseURL: api.url, apiKey: 'k', maxRetries: 0 });
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: asked }];
    const stream = fromStream((signal) => client.messages.create({ model: 'm', max_tokens: 99, messages, stream: true }, { signal }));
    const calls = await lastValueFrom(stream.pipe(assembleToolCalls(), toArray()));
    expect(calls).toEqual([{ id: 'toolu_1', name: 'read', input }]);
    const { results } = await runner.runAllAsync(calls);
    messages.push(
      { role: 'assistant', content: calls.map((call) => ({ type: 'tool_use', ...call })) },
      ...toToolResults(results, 'anthropic'),
    );
    const { content } = await client.messages.create({ model: 'm', max_tokens: 99, messages });
    expect(content).toMatchObject([{ type: 'text', text: 'four' }]);
  });

  it.each([
    [
      'chat completions',
      (client: OpenAI, signal: AbortSignal) =>
        client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: asked }], stream: true }, { signal }),
    ],
    [
      'the Responses API',
      (client: OpenAI, signal: AbortSignal) => client.responses.create({ model: 'm', input: asked, stream: true }, { signal }),
    ],
  ])('a cut socket ends %s with an error, and no call is made up', async (_name, create) => {
    api = await startModelApi({ chunks: 9 });
    api.fail({ cutStream: 5 });
    const client = new OpenAI({ baseURL: api.baseUrl, apiKey: 'k', maxRetries: 0 });
    const calls: ToolCall[] = [];
    const stream: Observable<unknown> = fromStream<unknown>((signal) => create(client, signal));
    const ended = new Promise((resolve, reject) => {
      stream.pipe(assembleToolCalls()).subscribe({
        next: (call) => calls.push(call),
        error: reject,
        complete: () => {
          resolve(calls);
        },
      });
    });
    await expect(ended).rejects.toThrow();
    expect(calls).toEqual([]);
  });

  it('leaving aborts at the server', async () => {
    api = await startModelApi({ chunks: 9, chunkGapMs: 50 });
    const client = new OpenAI({ baseURL: api.baseUrl, apiKey: 'k', maxRetries: 0 });
    const stream = fromStream((signal) => client.responses.create({ model: 'm', input: asked, stream: true }, { signal }));
    const subscription = stream.pipe(assembleToolCalls()).subscribe();
    await expect.poll(() => api.inFlight).toBe(1);
    subscription.unsubscribe();
    await expect.poll(() => api.aborted).toBe(1);
  });
});

describe('toToolResults', () => {
  const results = async (): Promise<readonly ToolResult[]> => {
    const runner = createToolRunner({ tools: [tool('read', () => 'four')] });
    return (
      await runner.runAllAsync([
        { id: 'a', name: 'read', input: {} },
        { id: 'b', name: 'write', input: {} },
      ])
    ).results;
  };

  it('keeps order and ids in every protocol, and says what failed', async () => {
    const all = await results();
    const failed = all[1]?.content ?? '';
    expect(toToolResults(all, 'chat')).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'four' },
      { role: 'tool', tool_call_id: 'b', content: failed },
    ]);
    expect(toToolResults(all, 'responses', ['write'])).toEqual([
      { type: 'function_call_output', call_id: 'a', output: 'four' },
      { type: 'custom_tool_call_output', call_id: 'b', output: failed },
    ]);
    expect(toToolResults(all, 'anthropic')).toEqual([
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: 'four', is_error: false },
          { type: 'tool_result', tool_use_id: 'b', content: failed, is_error: true },
        ],
      },
    ]);
    expect(toToolResults(all, 'ag-ui')).toEqual([
      { id: 'result-a', role: 'tool', toolCallId: 'a', content: 'four' },
      { id: 'result-b', role: 'tool', toolCallId: 'b', content: failed, error: 'there is no such tool; there are: read' },
    ]);
  });

  it.each(['chat', 'responses', 'anthropic', 'ag-ui'] as const)('says nothing in %s where nothing was called', (protocol) => {
    expect(toToolResults([], protocol)).toEqual([]);
  });

  it('refuses another protocol', () => {
    expect(() => toToolResults([], 'openai' as never)).toThrow(
      "toToolResults: expected `protocol` to be one of 'chat', 'responses', 'anthropic', 'ag-ui'",
    );
    expect(() => toToolResults([], 'responses', 'write' as never)).toThrow('`customTools` to be a list of names');
  });
});
