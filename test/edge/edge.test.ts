import { describe, expect, it } from 'vitest';
import {
  checkJson,
  indexChunkSchema,
  indexFooterSchema,
  indexHeaderSchema,
  journalLineSchema,
  questionsSchema,
} from '../../src/edge/index.js';

const sha256 = 'a'.repeat(64);
const chunk = { file: 'a.md', startLine: 1, endLine: 2, sha256, text: 'text', vector: 'AAAAPw==' };
const header = { format: 'sluice-index', version: 1, model: 'm', dimensions: 1, documents: 1, chunks: 1 };

describe('the schemas', () => {
  it('take what they describe', () => {
    expect(checkJson(indexHeaderSchema, JSON.stringify(header))).toEqual({ value: header });
    expect(checkJson(indexChunkSchema, JSON.stringify(chunk))).toEqual({ value: chunk });
    expect(checkJson(indexFooterSchema, JSON.stringify({ count: 0, sha256 }))).toEqual({ value: { count: 0, sha256 } });
    expect(checkJson(journalLineSchema, JSON.stringify({ model: 'm', sha256, vector: '' }))).toHaveProperty('value');
    expect(checkJson(questionsSchema, '[{ "question": " why? ", "expected": "a.md" }]')).toEqual({
      value: [{ question: 'why?', expected: 'a.md' }],
    });
  });

  it.each([
    ['another format', indexHeaderSchema, { ...header, format: 'x' }, '`format`'],
    ['another version', indexHeaderSchema, { ...header, version: 2 }, '`version`'],
    ['a field too many', indexHeaderSchema, { ...header, more: 1 }, 'more'],
    ['a line 0', indexChunkSchema, { ...chunk, startLine: 0 }, '`startLine`'],
    ['half a line', indexChunkSchema, { ...chunk, endLine: 1.5 }, '`endLine`'],
    ['a hash that is none', indexChunkSchema, { ...chunk, sha256: 'abc' }, '`sha256`: a SHA-256 as 64 hex digits'],
    ['an empty text', indexChunkSchema, { ...chunk, text: '' }, '`text`'],
    ['a vector that is no base64', indexChunkSchema, { ...chunk, vector: '***' }, '`vector`'],
    ['no questions', questionsSchema, [], 'expected array'],
    ['a blank question', questionsSchema, [{ question: ' ', expected: 'a' }], '`0.question`'],
    ['a question without its document', questionsSchema, [{ question: 'why?' }], '`0.expected`'],
  ])('refuse %s and say where', (_name, schema, input, place) => {
    const checked = checkJson<unknown>(schema, JSON.stringify(input));
    expect('problem' in checked && checked.problem).toContain(place);
  });

  it('refuse what is no JSON without quoting it', () => {
    expect(checkJson(questionsSchema, 'secret')).toEqual({ problem: 'not JSON' });
  });
});
