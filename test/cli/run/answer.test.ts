import { describe, expect, it } from 'vitest';
import { AnswerError, type AnswerKind, readAnswer } from '../../../src/cli/run/answer.js';

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
    expect(() => readAnswer(kind, text)).toThrow(new AnswerError(message));
  });
});
