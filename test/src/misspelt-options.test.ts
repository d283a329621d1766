import { resolve } from 'node:path';
import ts from 'typescript';
import { beforeAll, describe, expect, it } from 'vitest';
import { programOfOwn } from '../support/own-types.js';

const root = resolve(import.meta.dirname, '../..');
const FILE = resolve(root, 'test/misspelt.ts');

/** Calls with one mistake, and the error that names it; `‹…›` marks where the compiler has to point. */
const MISTAKES: readonly (readonly [string, string, string])[] = [
  ['beside a function', 'createModelCaller({ call: (q: string) => q, ‹concurency›: 4 });', "Did you mean to write 'concurrency'?"],
  ['beside chatCompletions', 'createModelCaller({ call: chat, ‹timeoutMS›: 4 });', "Did you mean to write 'timeoutMs'?"],
  [
    'beside a client and `parse`',
    'createModelCaller({ call: own, parse: String, ‹deadlinMs›: 4 });',
    "Did you mean to write 'deadlineMs'?",
  ],
  ['of the wrong type', "createModelCaller({ call: chat, ‹concurrency›: '4' });", "Type 'string' is not assignable to type 'number'"],
  ['in a group', 'hedging({ ‹delayMS›: 4 });', "Did you mean to write 'delayMs'?"],
  ['of the caller for the endpoint', "createModelCaller({ ‹baseUrl›: 'http://h/v1', model: 'm' });", "'baseUrl' does not exist in type"],
  [
    'of the endpoint',
    "createModelCaller({ call: chatCompletions({ ‹baseURL›: 'http://h/v1', model: 'm' }) });",
    "Did you mean to write 'baseUrl'?",
  ],
  ['left out', 'createModelCaller(‹{ concurrency: 4 }›);', "Property 'call' is missing"],
];

const HEAD = `import { hedging } from '../operators/index.js';
import { chatCompletions, createModelCaller } from '../src/pipelines/create-model-caller.js';
const chat = chatCompletions({ baseUrl: 'http://h/v1', model: 'm' });
const own = { send: (q: string) => q.length, stream: async function* (q: string) { yield q; } };
`;

describe('an option of createModelCaller', () => {
  /** Errors with the text that they point at, by line. */
  const errors = new Map<number, string[]>();
  const firstLine = HEAD.split('\n').length - 1;

  beforeAll(() => {
    const text = HEAD + MISTAKES.map(([, code]) => code.replace(/[‹›]/g, '')).join('\n');
    const program = programOfOwn([FILE], ['rxjs'], new Map([[FILE, text]]));
    for (const { start = 0, length = 0, messageText } of program.getSemanticDiagnostics(program.getSourceFile(FILE))) {
      const line = text.slice(0, start).split('\n').length - 1 - firstLine;
      const told = `${text.slice(start, start + length)}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
      errors.set(line, [...(errors.get(line) ?? []), told]);
    }
  });

  it.each(MISTAKES.map(([what, code, message], i) => ({ what, code, message, i })))(
    '$what is named where it is',
    ({ code, message, i }) => {
      const place = /‹(.*)›/.exec(code)?.[1];
      expect(errors.get(i)).toHaveLength(1);
      expect(errors.get(i)?.[0]).toContain(`${String(place)}: `);
      expect(errors.get(i)?.[0]).toContain(message);
    },
  );

  it('is the only thing wrong', () => {
    expect([...errors.keys()].sort((a, b) => a - b)).toEqual(MISTAKES.map((_, i) => i));
  });
});
