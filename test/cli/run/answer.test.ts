import { describe, expect, it } from 'vitest';
import { AnswerError, type AnswerKind, readAnswer, textOf } from '../../../src/cli/run/answer.js';
import { ANSWER_FAULTS, type AnswerFault } from '../../../src/pipelines/finish-reason.js';

describe('an answer', () => {
  it.each<readonly [AnswerKind, string, unknown]>([
    ['text', ' as it is\n', ' as it is\n'],
    ['json', ' {"a": 1}\n', { a: 1 }],
    ['json', 'null', null],
    ['json', 'Here it is:\n```json\n{"a": [1]}\n```\nAnything else?', { a: [1] }],
    ['list', '```\n["x"]\n```', ['x']],
    ['json', 'First ```json\r\n\r\n{"a": 1}\r\n  ```', { a: 1 }],
    ['json', '```JSON \n[1,\n2]\n```\n```\n3\n```', [1, 2]],
    ['list', '[]', []],
  ])('as %s: %j', (kind, text, value) => {
    expect(readAnswer(kind, text)).toEqual(value);
  });

  it.each<readonly [AnswerKind, string, string]>([
    ['json', 'secret', 'the answer is not JSON'],
    ['json', '', 'the answer is not JSON'],
    ['list', '{"a": 1}', 'the answer is not a JSON list'],
  ])('as %s is not %j', (kind, text, message) => {
    expect(() => readAnswer(kind, text)).toThrow(new AnswerError(message, 'format', text));
  });
});

describe('the text of an answer', () => {
  const said = (message: object, finish_reason: unknown = 'stop') => ({ choices: [{ index: 0, message, finish_reason }] }) as never;
  const content = (text: unknown) => ({ role: 'assistant', content: text });

  it.each<readonly [string, never, string]>([
    ['a text', said(content(' hi ')), ' hi '],
    ['parts', said(content([{ type: 'text', text: 'h' }, null, { type: 'image' }, { type: 'text', text: 'i' }])), 'hi'],
    ['no reason', said(content('hi'), null), 'hi'],
    ['an empty refusal', said({ ...content('hi'), refusal: '' }), 'hi'],
  ])('is that of %s', (_what, completion, text) => {
    expect(textOf(completion)).toBe(text);
  });

  it.each<readonly [string, never, readonly AnswerFault[], string]>([
    ['a text that was cut off', said(content('half a'), 'length'), ['length'], 'half a'],
    ['the same of another server', said(content('half a'), 'MAX_TOKENS'), ['length'], 'half a'],
    ['all tokens spent on thinking', said(content(''), 'length'), ['length', 'empty'], ''],
    ['a filter', said(content('half'), 'content_filter'), ['content_filter'], 'half'],
    ['a filter and nothing', said(content(null), 'content_filter'), ['content_filter', 'empty'], ''],
    ['a refusal', said({ ...content(null), refusal: 'I cannot' }), ['refusal'], 'I cannot'],
    ['a refusal in parts', said(content([{ type: 'refusal', refusal: 'I cannot' }])), ['refusal'], 'I cannot'],
    ['a refusal as a reason', said(content('I cannot'), 'refusal'), ['refusal'], 'I cannot'],
    ['nothing', said(content('')), ['empty'], ''],
    ['space', said(content(' \n')), ['empty'], ' \n'],
    ['no content', said({ role: 'assistant' }), ['empty'], ''],
    ['calls of tools alone', said({ ...content(null), tool_calls: [{ id: 'a' }] }, 'tool_calls'), ['empty'], ''],
    ['no message', said(undefined as never), ['empty'], ''],
  ])('of %s is taken when all that is wrong with it is accepted', (_what, completion, faults, text) => {
    for (let taken = 0; taken < 2 ** ANSWER_FAULTS.length; taken++) {
      const accept = ANSWER_FAULTS.filter((_, i) => (taken >> i) & 1);
      const first = faults.find((fault) => !accept.includes(fault));
      if (first === undefined) expect(textOf(completion, accept)).toBe(text);
      else expect(() => textOf(completion, accept)).toThrow(expect.objectContaining({ name: 'AnswerError', fault: first, partial: text }));
    }
  });

  it.each([[{ choices: [] }], [{}], [{ choices: null }]])('of %j is none, whatever is accepted', (completion) => {
    expect(() => textOf(completion as never, ANSWER_FAULTS)).toThrow(new AnswerError('the answer has no choices', 'empty'));
  });
});
