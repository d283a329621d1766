import { describe, expect, it } from 'vitest';
import { toMessages } from '../../src/frontend/turn-messages.js';
import type { TurnMessage } from '../../src/frontend/turn-types.js';
import { messageFaults } from '../support/message-faults.js';

const toolCalls = [
  { id: 'a', name: 'read', input: { path: 'x' } },
  { id: 'b', name: 'read it!', input: 'no object' },
];
const history: readonly TurnMessage[] = [
  { role: 'user', content: 'one' },
  { role: 'user', content: [{ type: 'text', text: 'two' }] },
  { role: 'assistant', content: 'hm', toolCalls },
  { role: 'tool', toolCallId: 'a', name: 'read', content: 'text', isError: false },
  { role: 'tool', toolCallId: 'b', name: 'read it!', content: 'refused', isError: true },
  { role: 'user', content: 'three' },
  { role: 'assistant', content: 'end ', toolCalls: [], isCut: true },
];

describe('toMessages', () => {
  it('writes chat completions', () => {
    expect(toMessages(history, 'chat')).toEqual([
      { role: 'user', content: 'one' },
      { role: 'user', content: [{ type: 'text', text: 'two' }] },
      {
        role: 'assistant',
        content: 'hm',
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'read', arguments: '{"path":"x"}' } },
          { id: 'b', type: 'function', function: { name: 'read_it_', arguments: '{"input":"no object"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: 'text' },
      { role: 'tool', tool_call_id: 'b', content: 'refused' },
      { role: 'user', content: 'three' },
      { role: 'assistant', content: 'end ' },
    ]);
    expect(toMessages([{ role: 'assistant', content: '', toolCalls }], 'chat')[0]).toMatchObject({ content: null });
  });

  it('writes messages of Anthropic: roles in their turns, results first, no blank at the end', () => {
    expect(toMessages(history, 'anthropic')).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'one' },
          { type: 'text', text: 'two' },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'hm' },
          { type: 'tool_use', id: 'a', name: 'read', input: { path: 'x' } },
          { type: 'tool_use', id: 'b', name: 'read_it_', input: { input: 'no object' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: 'text', is_error: false },
          { type: 'tool_result', tool_use_id: 'b', content: 'refused', is_error: true },
          { type: 'text', text: 'three' },
        ],
      },
      { role: 'assistant', content: [{ type: 'text', text: 'end' }] },
    ]);
  });

  it('writes items of Responses, and messages of AG-UI', () => {
    expect(toMessages(history.slice(2, 5), 'responses')).toEqual([
      { role: 'assistant', content: 'hm' },
      { type: 'function_call', call_id: 'a', name: 'read', arguments: '{"path":"x"}' },
      { type: 'function_call', call_id: 'b', name: 'read_it_', arguments: '{"input":"no object"}' },
      { type: 'function_call_output', call_id: 'a', output: 'text' },
      { type: 'function_call_output', call_id: 'b', output: 'refused' },
    ]);
    expect(toMessages(history.slice(3), 'ag-ui')).toEqual([
      { id: 'message_1', role: 'tool', toolCallId: 'a', content: 'text' },
      { id: 'message_2', role: 'tool', toolCallId: 'b', content: 'refused', error: 'refused' },
      { id: 'message_3', role: 'user', content: 'three' },
      { id: 'message_4', role: 'assistant', content: 'end ' },
    ]);
  });
});

describe('messageFaults', () => {
  const user = { role: 'user', content: 'x' };
  const called = (...ids: string[]) => ({
    role: 'assistant',
    content: null,
    tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'read', arguments: '{}' } })),
  });
  const answered = (tool_call_id: string) => ({ role: 'tool', tool_call_id, content: '' });
  const used = (...ids: string[]) => ({ role: 'assistant', content: ids.map((id) => ({ type: 'tool_use', id, name: 'read', input: {} })) });
  const results = (...ids: string[]) => ids.map((tool_use_id) => ({ type: 'tool_result', tool_use_id, content: '' }));
  const says = (...content: object[]) => ({ role: 'user', content });
  const text = { type: 'text', text: 'x' };

  it('finds none in what toMessages writes', () => {
    expect([messageFaults(toMessages(history, 'chat'), 'chat'), messageFaults(toMessages(history, 'anthropic'), 'anthropic')]).toEqual([
      [],
      [],
    ]);
  });

  it.each<[string, object[]]>([
    ['messages[2]: comes before the result of b', [called('a', 'b'), answered('a'), user]],
    ['the end: comes before the result of a', [called('a')]],
    ['messages[1]: answers a, which no call before it is waiting with', [user, answered('a')]],
    ['messages[2]: answers a, which no call before it is waiting with', [called('a'), answered('a'), answered('a')]],
    ['messages[0]: has two calls with the id a', [called('a', 'a'), answered('a')]],
    ['messages[0]: has a list of calls with nothing in it', [called()]],
    ['messages[0]: has neither content nor calls', [{ role: 'assistant', content: '' }]],
    ['messages[0]: has no content', [{ role: 'user', content: '' }]],
    ['messages[0]: has no role there is', [{ role: 'robot', content: 'x' }]],
    [
      'messages[0]: has a call whose arguments are no JSON object',
      [{ ...called('a'), tool_calls: [{ id: 'a', type: 'function', function: { name: 'read', arguments: '{"a' } }] }, answered('a')],
    ],
    [
      'messages[0]: has a call of a tool whose name cannot be one',
      [{ ...called('a'), tool_calls: [{ id: 'a', type: 'function', function: { name: 'read it', arguments: '{}' } }] }, answered('a')],
    ],
  ])('of chat completions: %s', (fault, messages) => {
    expect(messageFaults(messages, 'chat')).toEqual([fault]);
  });

  it.each<[string, object[]]>([
    ['the end: there is no message', []],
    ['messages[0]: is an answer to nothing', [{ role: 'assistant', content: 'x' }]],
    ['messages[1]: follows another of role user', [user, user]],
    ['messages[2]: comes before the result of b', [user, used('a', 'b'), says(...results('a'))]],
    ['the end: comes before the result of a', [user, used('a')]],
    ['messages[2]: has something before its results', [user, used('a'), says(text, ...results('a'))]],
    ['messages[0]: answers a, which no call before it is waiting with', [says(...results('a'))]],
    ['messages[2]: answers a, which no call before it is waiting with', [user, used('a'), says(...results('a', 'a'))]],
    [
      'messages[3]: has a call with the id a, which is used before',
      [user, used('a'), says(...results('a')), used('a'), says(...results('a'))],
    ],
    ['messages[1]: has a call whose id cannot be one', [user, used('a b'), says(...results('a b'))]],
    ['messages[0]: has a text that is blank', [says({ type: 'text', text: ' ' })]],
    ['messages[1]: has no content', [user, { role: 'assistant', content: [] }]],
    [
      'messages[1]: has thinking without its signature',
      [user, { role: 'assistant', content: [{ type: 'thinking', thinking: 'x' }, text] }],
    ],
    ['messages[1]: has thinking without its signature', [user, { role: 'assistant', content: [{ type: 'redacted_thinking' }, text] }]],
    ['messages[1]: ends with thinking', [user, { role: 'assistant', content: [text, { type: 'thinking', thinking: '', signature: 'x' }] }]],
    ['messages[0]: has thinking, which is for answers', [says({ type: 'redacted_thinking', data: 'x' }, text)]],
    ['messages[1]: ends with a blank, as the last answer', [user, { role: 'assistant', content: 'x ' }]],
    [
      'messages[1]: has a call whose input is no object',
      [user, { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'read', input: 'x' }] }, says(...results('a'))],
    ],
  ])('of Anthropic: %s', (fault, messages) => {
    expect(messageFaults(messages, 'anthropic')).toEqual([fault]);
  });

  const item = (call_id: string, args = '{}') => ({ type: 'function_call', call_id, name: 'read', arguments: args });
  const output = (call_id: string) => ({ type: 'function_call_output', call_id, output: '' });
  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' };

  it.each<[string | undefined, object[]]>([
    [
      undefined,
      [user, reasoning, reasoning, item('a'), item('b'), output('b'), output('a'), reasoning, { role: 'assistant', content: 'x' }],
    ],
    ['the end: comes before the result of a', [user, item('a')]],
    ['messages[1]: answers a, which no call before it is waiting with', [user, output('a')]],
    ['messages[3]: answers a, which no call before it is waiting with', [user, item('a'), output('a'), output('a')]],
    ['messages[2]: has a call with the id a, which is used before', [item('a'), output('a'), item('a'), output('a')]],
    ['messages[0]: has a call whose arguments are no JSON object', [item('a', '"x"'), output('a')]],
    ['messages[0]: has a call of a tool whose name cannot be one', [{ ...item('a'), name: '' }, output('a')]],
    ['messages[0]: has a call without an id', [item(''), output('')]],
    ['messages[0]: has reasoning that nothing follows', [reasoning, user]],
    ['messages[0]: has reasoning that nothing follows', [reasoning]],
    ['messages[0]: has reasoning that is not encrypted', [{ ...reasoning, encrypted_content: null }, item('a'), output('a')]],
    ['messages[0]: has no content', [{ role: 'user', content: [] }]],
  ])('of Responses: %s', (fault, messages) => {
    expect(messageFaults(messages, 'responses')).toEqual(fault === undefined ? [] : [fault]);
  });
});
