import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { configJsonSchema } from '../../src/edge/config/json-schema.js';
import { chatCompletionsOptions, modelCallerOptions, parseConfig, planOf } from '../../src/edge/index.js';
import { chatCompletions, createAccount, createBudget, createModelCaller, createStages, explainThroughput } from '../../src/index.js';
import { configKeys } from '../support/config-keys.js';
import { configMistakes } from '../support/config-mistakes.js';
import { sized } from '../support/deep.js';

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly anyOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly pattern?: string;
}

const schema = configJsonSchema() as Schema;
const validate = new Ajv2020({ strict: false }).compile(schema);

/** What is said only by the parser, and no schema can say. */
const BEYOND = [
  /two (lanes|stages) have the same name/,
  /unknown lane/,
  /names a stage that has no answer yet/,
  /names its own stage/,
  /names a part of an answer that is a text/,
  /`\{\{\}\}` is empty/,
  /opens a placeholder that does not end/,
  /ends in the path of a request/,
  /no stage has this name/,
  /invalid URL/,
  /the URL contains a user or a password/,
  /cannot be sent as a header/,
  /invalid header name/,
  /`overlapTokens` is more than half of `maxTokens`/,
];

function agrees(document: unknown): { readonly parser: boolean; readonly editor: boolean } {
  const parsed = parseConfig(document);
  // What a variable stands for can only be judged where it is known.
  const text = JSON.stringify(document);
  const unknown = [
    [/"scheduling":"\$\{/, /`(batches|concurrency\.batch_level)\.(priority|maxQueued)`: .* needs /],
    [/"answer":"\$\{/, /`(fixAnswer|listLength)` needs /],
    [/"rounds":"\$\{/, /`continue` is asked between two rounds/],
  ] as const;
  const unsaid = unknown.flatMap(([given, message]) => (given.test(text) ? [message] : []));
  const problems = 'problems' in parsed ? parsed.problems.filter(({ message }) => !BEYOND.some((one) => one.test(message))) : [];
  const known = problems.filter(({ message }) => !unsaid.some((one) => one.test(message)));
  const editor = validate(document);
  // It may stand in another place than the variable.
  return { parser: problems.length > known.length && known.length === 0 ? editor : known.length === 0, editor };
}

/** Documents that keep to every schema, but not to what its parts have to do with each other. */
function documents(node: Schema): fc.Arbitrary<unknown> {
  const [narrow, variable] = node.anyOf ?? [];
  if (narrow && variable?.pattern?.includes('$') === true && variable.type === 'string') {
    const value = documents(narrow);
    return fc.oneof({ weight: 9, arbitrary: value }, { weight: 1, arbitrary: value.map((one) => `\${NOT_SET:-${String(one)}}`) });
  }
  if (node.anyOf) return fc.oneof(...node.anyOf.map(documents));
  if (node.const !== undefined) return fc.constant(node.const);
  if (node.enum) return fc.constantFrom(...node.enum);
  const least = node.minimum ?? (node.exclusiveMinimum === undefined ? undefined : node.exclusiveMinimum + 0.5);
  switch (node.type) {
    case 'integer':
      return fc.integer({ min: least ?? 0, max: 1000 });
    case 'number':
      return fc
        .double({ min: least ?? 0, max: Math.min(node.maximum ?? 1000, 1000), noNaN: true })
        .map((value) => Number(value.toPrecision(4)));
    case 'boolean':
      return fc.boolean();
    case 'string':
      return fc.constantFrom(
        ...(node.pattern === undefined
          ? ['a text', 'normal', 'papers.jsonl']
          : node.pattern.startsWith('^http')
            ? [
                'https://host/v1',
                'http://127.0.0.1:8787/v1',
                'http://[::1]:80',
                'http://a b',
                'http://[',
                'http://host:99999/',
                'https://%',
              ]
            : ['user', 'ask', 'grade']),
      );
    case 'array':
      return fc.array(documents(node.items ?? {}), { minLength: node.minItems ?? 0, maxLength: 3 });
    case 'object': {
      const parts = Object.fromEntries(Object.entries(node.properties ?? {}).map(([key, part]) => [key, documents(part)]));
      if (typeof node.additionalProperties === 'object')
        return fc.dictionary(fc.constantFrom('m', 'ask', 'grade'), documents(node.additionalProperties), { maxKeys: 2 });
      const required = node.required ?? [];
      const optional = Object.keys(parts).filter((key) => !required.includes(key));
      const others = fc.subarray(optional, { maxLength: Math.min(4, optional.length) });
      return others.chain((keys) =>
        fc.record(Object.fromEntries([...required, ...keys].map((key) => [key, parts[key] ?? fc.constant(0)]))),
      );
    }
    default:
      return fc.constantFrom<unknown>(null, 1, 'a', [1], { a: 1 });
  }
}

type Steps = readonly (string | number)[];

function pathsIn(value: unknown, path: Steps = []): Steps[] {
  if (typeof value !== 'object' || value === null) return [path];
  const parts: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return [path, ...parts.flatMap(([step, part]) => pathsIn(part, [...path, step]))];
}

function changed(value: unknown, [step, ...deeper]: Steps, change: (part: unknown) => unknown): unknown {
  if (step === undefined) return change(value);
  if (Array.isArray(value)) return value.map((part: unknown, i) => (i === step ? changed(part, deeper, change) : part));
  const parts = value as Readonly<Record<string, unknown>>;
  return { ...parts, [step]: changed(parts[step], deeper, change) };
}

/** Every kind of value in a place that may want another, or an unknown key. */
const slips = fc.constantFrom<(part: unknown) => unknown>(
  ...[null, -1, 0, 0.5, 1.5, 7, 1e9, 'text', '', 'user', '4', true, false, [], [1], {}].map((value) => () => value),
  (part) => (typeof part === 'object' && !Array.isArray(part) ? { ...part, nonsense: 1 } : part),
  (part) => (typeof part === 'object' && !Array.isArray(part) ? Object.fromEntries(Object.entries(part ?? {}).slice(1)) : part),
);

describe('the JSON Schema', () => {
  it('is the one in docs/', async () => {
    await expect(`${JSON.stringify(schema, undefined, 2)}\n`).toMatchFileSnapshot('../../docs/config.schema.json');
  });

  it('agrees with the parser on documents that are right in their parts', () => {
    const seen = { right: 0, wrong: 0 };
    fc.assert(
      fc.property(documents(schema), (document) => {
        const { parser, editor } = agrees(document);
        seen[parser ? 'right' : 'wrong']++;
        expect(editor, JSON.stringify({ document, parsed: parseConfig(document), editor: validate.errors })).toBe(parser);
      }),
      { numRuns: sized(100, 500) },
    );
    // Both kinds, or nothing was compared.
    expect(Math.min(seen.right, seen.wrong)).toBeGreaterThan(sized(2, 20));
  });

  it('agrees with the parser on documents with one slip', () => {
    const seen = { right: 0, wrong: 0 };
    fc.assert(
      fc.property(documents(schema), fc.nat(), slips, (document, place, slip) => {
        const paths = pathsIn(document);
        const slipped = changed(document, paths[place % paths.length] ?? [], slip);
        const { parser, editor } = agrees(slipped);
        seen[parser ? 'right' : 'wrong']++;
        expect(editor, JSON.stringify({ slipped, parsed: parseConfig(slipped), editor: validate.errors })).toBe(parser);
      }),
      { numRuns: sized(150, 1500) },
    );
    expect(Math.min(seen.right, seen.wrong)).toBeGreaterThan(sized(3, 50));
  });

  it('lets nothing through that what is made of it would refuse', () => {
    let made = 0;
    fc.assert(
      fc.property(documents(schema), fc.nat(), slips, fc.boolean(), (document, place, slip, hasSlip) => {
        const paths = pathsIn(document);
        const parsed = parseConfig(hasSlip ? changed(document, paths[place % paths.length] ?? [], slip) : document);
        if ('problems' in parsed) return;
        const { limits, model, batches, stages, prices, budget } = parsed.value;
        const limiter = createAccount(limits);
        const call = chatCompletions({ baseUrl: 'https://host/v1', model: 'm', ...chatCompletionsOptions(model) });
        createModelCaller({ call, ...modelCallerOptions(model), limiter });
        const work = (item: unknown): unknown => item;
        const { priority: field, ...rules } = batches ?? {};
        createStages(
          (stages ?? [{ name: 'calls' }]).map(({ name, concurrency, scope, timeoutMs, deadlineMs, allowPartialFailure }) => {
            const levels = { concurrency, scope, timeoutMs, deadlineMs, allowPartialFailure };
            return { name, ...Object.fromEntries(Object.entries(levels).filter(([, given]) => given !== undefined)), work };
          }) as never,
          { batches: { ...rules, ...(field !== undefined && { priority: () => 1 }) }, limiter },
        );
        const { usd, tokens, warnAt = 0.8, windowMs = Infinity } = budget ?? {};
        const most = [
          ...(usd !== undefined && prices && Object.keys(prices).length > 0 ? [{ usd }] : []),
          ...(tokens === undefined ? [] : [{ tokens }]),
        ];
        createBudget({ ...(prices && { prices }), limits: most.map((each) => ({ ...each, windowMs })), warnAt });
        explainThroughput(planOf(parsed.value).plan);
        made++;
      }),
      { numRuns: sized(100, 1000) },
    );
    expect(made).toBeGreaterThan(sized(5, 100));
  });

  it('finds the mistakes people make, but for those that no schema can', () => {
    const unseen = configMistakes.filter(({ text, messages }) => {
      if (messages.some((message) => BEYOND.some((one) => one.test(message)) || !message.startsWith('`') || message.includes('${')))
        return false;
      return validate(parse(text));
    });
    // A variable that holds no number.
    expect(unseen.map(({ text }) => text)).toEqual(['limits: { concurrency: "${WORD}" }\n']);
  });

  it('says what every key is for, and so does the documentation', () => {
    const keys = configKeys(schema);
    expect(keys.length).toBeGreaterThan(80);
    expect(keys.filter(({ description }) => description === '')).toEqual([]);
    const page = readFileSync(new URL('../../docs/config.md', import.meta.url), 'utf8');
    for (const { row } of keys) expect(page).toContain(row);
  });
});
