import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PromptTemplate } from '../../src/pipelines/prompt-template.js';

const fill = (text: string, values: Readonly<Record<string, unknown>>): string => new PromptTemplate(text).fill(values);

describe('a prompt template', () => {
  it('takes fields, and fields of fields', () => {
    expect(fill('{{title}}: {{ paper.year }}', { title: 'On batches', paper: { year: 2024 } })).toBe('On batches: 2024');
    expect(fill('{{tags.1}}', { tags: ['a', 'b'] })).toBe('b');
  });

  it('puts texts in as they are, and all else as JSON', () => {
    expect(fill('{{a}}{{b}}{{c}}{{d}}', { a: '"x"', b: ['y', 1], c: null, d: false })).toBe('"x"["y",1]nullfalse');
  });

  it('says what there is no value for, and never reads what an object inherits', () => {
    expect(() => fill('{{text}}', {})).toThrow('there is no value for `{{text}}`');
    expect(() => fill('{{a.b}}', { a: 'text' })).toThrow('`{{a.b}}`');
    expect(() => fill('{{a.constructor}}', { a: {} })).toThrow('`{{a.constructor}}`');
    expect(() => fill('{{}}', { a: 1 })).toThrow('`{{}}`');
  });

  it('lists its placeholders', () => {
    expect(new PromptTemplate('{{a}} { {{ b . c }} }} {{').placeholders).toEqual([['a'], ['b', 'c']]);
  });

  it('leaves every text without placeholders, and every value, as it is', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), fc.array(fc.string()), (texts, values) => {
        const plain = texts.map((text) => text.replaceAll(/[{}]/g, ''));
        const template = plain.join('{{x}}');
        expect(values.map((x) => fill(template, { x }))).toEqual(values.map((x) => plain.join(x)));
      }),
    );
  });
});
