import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { type ConfigProblem, type ParseConfigOptions, parseConfig } from '../../src/edge/index.js';
import { configMistakes } from '../support/config-mistakes.js';

function problemsOf(input: unknown, options?: ParseConfigOptions): readonly ConfigProblem[] {
  const parsed = parseConfig(input, options);
  return 'problems' in parsed ? parsed.problems : [];
}
const messagesOf = (input: unknown, options?: ParseConfigOptions): string[] => problemsOf(input, options).map(({ message }) => message);

/** What a program may hand over. */
const EVERYTHING = {
  ...{ withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true },
  ...{ withNullPrototype: true, withObjectString: true, withSparseArray: true, withBoxedValues: true },
} as const;

describe('a configuration', () => {
  it('of every section is read as it stands, from YAML, JSON and values alike', () => {
    const value = {
      name: 'papers',
      model: {
        baseUrl: 'http://127.0.0.1:8787/v1',
        model: 'm',
        headers: { 'x-team': 'a' },
        options: { seed: 7, stop: ['.'] },
        retry: { maxAttempts: 5 },
      },
      limits: { concurrency: 10, requestsPerMinute: 300, burst: 10, tokensPerMinute: 90_000, headroom: 1, lanes: ['now', 'later'] },
      lane: 'later',
      batches: { concurrency: 3, scheduling: 'priority', priority: 'rank', maxQueued: 50 },
      stages: [
        { name: 'cut', chunk: { field: 'text', maxTokens: 800 } },
        {
          name: 'ask',
          prompt: 'About {{cut}}: {{question}}?',
          answer: 'list',
          concurrency: 5,
          scope: 'perBatch',
          timeoutMs: 120_000,
          allowPartialFailure: true,
        },
        { name: 'grade', prompt: '{{ask.text}} {{cut}}', expect: { itemsPerDocument: 20, secondsPerCall: 20, inputTokens: 300 } },
      ],
      input: { path: 'papers.jsonl', format: 'jsonl', id: 'doi' },
      output: { path: 'out.jsonl', failures: 'bad.jsonl' },
      prices: { m: { inputUsdPerMillion: 0.4, outputUsdPerMillion: 1.6 } },
      budget: { usd: 20, warnAt: 0.5 },
      expect: { documents: 100, secondsPerCall: 30 },
    };
    const text = JSON.stringify(value, undefined, 2);
    expect(parseConfig(value)).toEqual({ value });
    expect(parseConfig(text, { format: 'json' })).toEqual({ value });
    expect(parseConfig(text)).toEqual({ value });
    expect(parseConfig(`# papers\n---\n${text}\n...\n`)).toEqual({ value });
  });

  it.each(['json', 'yaml'] as const)('may begin with a byte order mark, as %s', (format) => {
    expect(parseConfig('\uFEFF{ "name": "a" }', { format })).toEqual({ value: { name: 'a' } });
    expect(problemsOf('\uFEFF{ "name": 5 }', { format })).toMatchObject([{ line: 1, column: 3 }]);
  });

  it('may hold limits alone, or nothing', () => {
    expect(parseConfig('limits: { concurrency: 4 }')).toEqual({ value: { limits: { concurrency: 4 } } });
    expect(parseConfig({})).toEqual({ value: {} });
  });

  it('says requests per second, which are sixty times as many in a minute', () => {
    expect(parseConfig('limits: { requestsPerSecond: 5.0, burst: 10 }')).toEqual({
      value: { limits: { requestsPerMinute: 300, burst: 10 } },
    });
  });
});

describe('levels, as another design writes them', () => {
  const levels = `
concurrency:
  batch_level:
    max_concurrent_batches: 3
    questions_per_batch: 20
    scheduling: "fair"  # fair | priority | round_robin
  stage_level:
    generation:
      concurrency: 1
      batch_mode: true
    answering:
      concurrency: 5
      timeout: 120
      allow_partial_failure: true
    grading:
      concurrency: 3
      timeout: 60
      allow_partial_failure: true
  request_level:
    max_concurrent_requests: 10
    rate_limit:
      requests_per_second: 5.0
      burst_size: 10
`;

  it('become batches, stages and limits', () => {
    expect(parseConfig(levels)).toEqual({
      value: {
        batches: { concurrency: 3, scheduling: 'fair' },
        stages: [
          { name: 'generation', concurrency: 1, scope: 'perBatch', answer: 'list', listLength: 20 },
          {
            name: 'answering',
            concurrency: 5,
            scope: 'perBatch',
            timeoutMs: 120_000,
            allowPartialFailure: true,
            expect: { itemsPerDocument: 20 },
          },
          {
            name: 'grading',
            concurrency: 3,
            scope: 'perBatch',
            timeoutMs: 60_000,
            allowPartialFailure: true,
            expect: { itemsPerDocument: 20 },
          },
        ],
        limits: { concurrency: 10, requestsPerMinute: 300, burst: 10 },
      },
    });
  });

  it('stand beside stages of the same names, which say the rest and have the last word', () => {
    const stages =
      'stages:\n  - { name: generation, prompt: "{{text}}" }\n  - { name: grading, prompt: "{{generation}}", concurrency: 4 }\n';
    expect(messagesOf(levels + stages)).toEqual([
      '`concurrency.stage_level.answering`, line 11: no stage has this name. Use the name of one of `stages`.',
    ]);
    const two = levels.replace(/ {4}answering:[^]*(?= {4}grading:)/, '');
    expect(parseConfig(two + stages)).toMatchObject({
      value: {
        stages: [
          { name: 'generation', prompt: '{{text}}', concurrency: 1, answer: 'list' },
          { name: 'grading', concurrency: 4, timeoutMs: 60_000 },
        ],
      },
    });
  });

  it('say a number of questions, which prompts name and later stages expect', () => {
    const stages = [
      'stages:',
      '  - { name: generation, prompt: "{{questions_per_batch}} questions about {{text}}" }',
      '  - { name: answering, prompt: "{{generation}} of {{ questions_per_batch }}", expect: { secondsPerCall: 30 } }',
      '  - { name: grading, prompt: "{{answering}}", expect: { itemsPerDocument: 7 } }',
    ].join('\n');
    const parsed = parseConfig(levels + stages);
    expect('notices' in parsed).toBe(false);
    expect(parsed).toMatchObject({
      value: {
        stages: [
          { prompt: '20 questions about {{text}}', answer: 'list', listLength: 20 },
          { prompt: '{{generation}} of 20', expect: { itemsPerDocument: 20, secondsPerCall: 30 } },
          { expect: { itemsPerDocument: 7 } },
        ],
      },
    });
  });

  it('without a stage that makes a list say what documents come with', () => {
    expect(
      parseConfig('concurrency: { batch_level: { questions_per_batch: 20 }, stage_level: { answering: { concurrency: 2 } } }'),
    ).toEqual({
      value: { batches: {}, stages: [{ name: 'answering', concurrency: 2, scope: 'perBatch', expect: { itemsPerDocument: 20 } }] },
    });
  });

  it('may go by priority, with the field that says it', () => {
    const text = 'concurrency: { batch_level: { scheduling: priority, priority: rank } }';
    expect(parseConfig(text)).toEqual({ value: { batches: { scheduling: 'priority', priority: 'rank' } } });
    expect(messagesOf(text.replace('scheduling: priority, ', ''))).toEqual([
      '`concurrency.batch_level.priority`, line 1: `priority` needs `scheduling: priority`. Add it, or remove `priority`.',
    ]);
  });

  it('have no effect on connections, and a notice says so', () => {
    const pool = '    connection_pool:\n      size: 20\n      keepalive: 30\n      timeout: 300\n';
    const parsed = parseConfig(levels + pool);
    expect(parsed).toEqual({
      ...parseConfig(levels),
      notices: [
        {
          path: 'concurrency.request_level.connection_pool',
          line: 24,
          column: 5,
          message:
            "`concurrency.request_level.connection_pool`, line 24: `connection_pool` has no effect. Node's `fetch` keeps its own connections.",
        },
      ],
    });
  });

  it('are not mixed with what they stand for', () => {
    expect(messagesOf(`${levels}limits: { headroom: 1 }\n`)).toEqual([
      '`concurrency`, line 2: `concurrency` cannot be combined with `limits`. Remove one of them.',
    ]);
  });
});

describe('the length of a list', () => {
  const stages = (first: string): string =>
    `stages:\n  - { name: ask, answer: list, listLength: 3, prompt: "${first}" }\n  - { name: reply, prompt: "{{ask}}" }\n`;

  it('stands in the prompt, and is what the stages behind expect', () => {
    expect(parseConfig(stages('{{listLength}} questions'))).toEqual({
      value: {
        stages: [
          { name: 'ask', answer: 'list', listLength: 3, prompt: '3 questions' },
          { name: 'reply', prompt: '{{ask}}', expect: { itemsPerDocument: 3 } },
        ],
      },
    });
  });

  it('multiplies with that of another list, and is not known behind parts of a text', () => {
    const lists =
      'stages: [{ name: a, answer: list, listLength: 3 }, { name: b, answer: list, listLength: 4 }, { name: c }, { name: d, chunk: { field: t } }, { name: e }]';
    const parsed = parseConfig(lists);
    const expected = 'value' in parsed ? parsed.value.stages?.map(({ expect: load }) => load?.itemsPerDocument) : [];
    expect(expected).toEqual([undefined, 3, 12, 12, undefined]);
    const behind = parseConfig('stages: [{ name: d, chunk: { field: t } }, { name: a, answer: list, listLength: 3 }, { name: b }]');
    expect('value' in behind && behind.value.stages?.map((stage) => stage.expect)).toEqual([undefined, undefined, undefined]);
  });

  it('is told of when the prompt does not say it to the model', () => {
    expect(parseConfig(stages('3 questions'))).not.toHaveProperty('notices');
    expect(parseConfig(stages('30 questions'))).toMatchObject({
      notices: [
        {
          path: 'stages[0].listLength',
          line: 2,
          message:
            '`stages[0].listLength`, line 2: the prompt of `ask` does not say this number to the model. Write `{{listLength}}` in it.',
        },
      ],
    });
  });
});

describe('notices', () => {
  const noticesOf = (text: string): string[] => {
    const parsed = parseConfig(text);
    return 'value' in parsed ? (parsed.notices ?? []).map(({ message }) => message) : messagesOf(text);
  };

  it('tell of a prompt that is the same for every row, where a run sends it', () => {
    const stages = 'stages: [{ name: ask, prompt: hi }, { name: reply, prompt: "{{ask}}" }]';
    expect(noticesOf(stages)).toEqual([]);
    expect(noticesOf(`${stages}\ninput: { path: in.jsonl }`)).toEqual([
      '`stages[0].prompt`, line 1: every row sends the same prompt, for it has no placeholder. Name a field of the row: `{{field}}`.',
    ]);
  });

  it('tell of options that are settings as well', () => {
    expect(noticesOf('model: { options: { maxTokens: 5, max_tokens: 5, seed: 1 } }')).toEqual([
      '`model.options.maxTokens`, line 1: `options` are sent as they are, and APIs know no `maxTokens`. Write `maxTokens` of `model` or of a stage.',
    ]);
    for (const text of ['maxTokens: 9 }', ' }\nstages: [{ name: ask, maxTokens: 9 }]'])
      expect(noticesOf(`model: { options: { max_tokens: 5 }, ${text}`)).toEqual([
        '`model.options.max_tokens`, line 1: `max_tokens` is sent beside `maxTokens`, or in its place. Remove one of them.',
      ]);
  });
});

describe('placeholders without quotes', () => {
  const bare = (place: string): string[] => [
    `${place}: \`{{…}}\` without quotes is a mapping in YAML. Put the whole text in quotes: \`"… {{…}} …"\`.`,
  ];

  it.each([
    ['stages:\n  - name: ask\n    prompt: {{text}} in short\n', 'line 3, column 13'],
    ['stages:\n  - name: ask\n    prompt: {{ text }}, and {{title}}\n', 'line 3, column 13'],
    ['stages: [{ name: ask, prompt: {{text}} }]\n', 'line 1, column 31'],
    ['stages: [{ name: ask, prompt: say {{text}} }]\n', 'line 1, column 35'],
    ["name: 'a: {{b}}'\nlane: {{text}}\n", 'line 2, column 7'],
  ])('are told of: %s', (text, place) => {
    expect(messagesOf(text)).toEqual(bare(place));
  });

  it('are right within a text, and blamed for nothing else', () => {
    expect(parseConfig('stages:\n  - name: ask\n    prompt: say {{text}}\n')).toMatchObject({
      value: { stages: [{ prompt: 'say {{text}}' }] },
    });
    expect(messagesOf('stages: [{ name: ask, prompt: "say {{text}}" ]\n')).toEqual([expect.stringContaining('invalid YAML')]);
  });
});

describe('variables', () => {
  const env = { CALLS: '12', URL: 'https://host/v1', RATE: '2.5', YES: 'true', EMPTY: '', NOTHING: undefined };
  const read = (text: string) => parseConfig(text, { env });

  it('stand for numbers, truth values and texts, or for a part of one', () => {
    const text = 'limits: { concurrency: "${CALLS}", requestsPerSecond: "${RATE}" }\nmodel: { baseUrl: "${URL}/api", model: "m-${CALLS}" }';
    expect(read(text)).toEqual({
      value: { limits: { concurrency: 12, requestsPerMinute: 150 }, model: { baseUrl: 'https://host/v1/api', model: 'm-12' } },
    });
    expect(read('stages: [{ name: a, allowPartialFailure: "${YES}" }]')).toEqual({
      value: { stages: [{ name: 'a', allowPartialFailure: true }] },
    });
    expect(read('model: { retry: "${RETRY:-false}" }')).toEqual({ value: { model: { retry: false } } });
  });

  it('have a default for when they are not set, or empty', () => {
    const text = 'limits: { concurrency: "${NONE:-4}", maxQueued: "${EMPTY:-7}", tokensPerMinute: "${NOTHING:-1e5}" }';
    expect(read(text)).toEqual({ value: { limits: { concurrency: 4, maxQueued: 7, tokensPerMinute: 100_000 } } });
  });

  it('are left alone in prompts, and after a second dollar', () => {
    const text = 'name: "$${CALLS}"\nstages: [{ name: a, prompt: "what is ${x}?", system: "${y}" }]';
    expect(read(text)).toEqual({ value: { name: '${CALLS}', stages: [{ name: 'a', prompt: 'what is ${x}?', system: '${y}' }] } });
  });

  it('that are missing are named with their path, all at once, and nothing more is said of that place', () => {
    expect(messagesOf('limits:\n  concurrency: ${A}\n  headroom: ${B}\nname: ${C:-}', { env })).toEqual([
      '`limits.concurrency`, line 2: the environment variable `A` is not set. Set it, or write a default: `${A:-…}`.',
      '`limits.headroom`, line 3: the environment variable `B` is not set. Set it, or write a default: `${B:-…}`.',
      '`name`, line 4: expected a non-empty text, got the value of `C`',
    ]);
  });

  it.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])('are none that every object has: %s', (name) => {
    for (const given of [{}, env, Object.create({ [name]: 'x' }) as object])
      expect(messagesOf(`name: \${${name}}`, { env: given as typeof env })).toEqual([
        `\`name\`, line 1: the environment variable \`${name}\` is not set. Set it, or write a default: \`\${${name}:-…}\`.`,
      ]);
    expect(read(`name: "\${${name}:-x}"`)).toEqual({ value: { name: 'x' } });
  });

  it('are read from what is given only', () => {
    expect(messagesOf('name: ${PATH}')).toEqual([
      '`name`, line 1: the environment variable `PATH` is not set. Set it, or write a default: `${PATH:-…}`.',
    ]);
  });
});

describe('what is wrong', () => {
  it.each(configMistakes)('$text', ({ text, messages }) => {
    expect(messagesOf(text, { env: { WORD: 'many' } })).toEqual(messages);
  });

  it('is in the documentation, word for word', () => {
    const page = readFileSync(new URL('../../docs/config.md', import.meta.url), 'utf8');
    for (const message of configMistakes.flatMap(({ messages }) => messages)) expect(page).toContain(message);
  });

  it('is said as data, too', () => {
    expect(problemsOf('stages:\n  - name: a\n    concurrency: 0\n')).toEqual([
      {
        path: 'stages[0].concurrency',
        line: 3,
        column: 5,
        expected: 'a whole number >= 1',
        got: '`0`',
        message: '`stages[0].concurrency`, line 3: expected a whole number >= 1, got `0`',
      },
    ]);
    expect(problemsOf({ limits: { concurrency: 0 } })[0]).not.toHaveProperty('line');
  });

  it.each<[string, unknown]>([
    ['an anchor in itself', 'a: &a [*a]'],
    [
      'a billion laughs',
      [
        'a: &a [1,1,1,1,1,1,1,1,1]',
        ...['ab', 'bc', 'cd', 'de', 'ef', 'fg', 'gh'].map(([from = '', to = '']) => `${to}: &${to} [${Array(9).fill(`*${from}`).join()}]`),
      ].join('\n'),
    ],
    ['no end of brackets', '['.repeat(50_000)],
    ['no end of braces', '{"a":'.repeat(50_000)],
    ['a tag', 'name: !!js/function "x"'],
    [
      'a value in itself',
      (() => {
        const value: Record<string, unknown> = {};
        value['limits'] = value;
        return value;
      })(),
    ],
    ['a bigint', { limits: { concurrency: 5n } }],
    ['a function', { limits: () => 1 }],
    ['nothing', undefined],
    ['a prototype', JSON.parse('{ "__proto__": { "limits": 1 } }')],
    ['a constructor', { constructor: 1, toString: 2 }],
    ['numbers beyond numbers', 'limits: { concurrency: .inf, headroom: .nan, tokensPerMinute: 1e999 }'],
  ])('%s is refused', (_, input) => {
    expect(problemsOf(input).length).toBeGreaterThan(0);
  });

  it('is never thrown, and never more than can be read', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json(), fc.anything(EVERYTHING)), (input) => {
        for (const { message } of problemsOf(input)) expect(message.length).toBeLessThan(600);
      }),
    );
  });

  it.each([
    ['a Map', new Map([['limits', { concurrency: 4 }]])],
    ['a Set', { limits: { lanes: new Set(['user']) } }],
    ['a Date', { model: { options: { since: new Date() } } }],
    ['a big number', { limits: { concurrency: 4n } }],
  ])('is %s where plain data belongs: nothing of it is passed over', (_, input) => {
    expect(problemsOf(input)).toMatchObject([{ got: 'not plain data', expected: 'Use only what JSON can express.' }]);
  });

  it.each(['', 'model: ', 'model: { headers: ', 'model: { options: ', 'prices: ', 'concurrency: { stage_level: '])(
    'is a key that schemas pass over: %s',
    (within) => {
      const text = `${within}{ __proto__: {} }${' }'.repeat(within.split('{').length - 1)}`;
      expect(messagesOf(text)).toEqual([
        `line 1, column ${String(text.indexOf('__proto__') + 1)}: the key \`__proto__\` is not allowed. Rename it.`,
      ]);
      expect(problemsOf(parse(text))).toMatchObject([{ got: 'not plain data' }]);
    },
  );

  it('is said at once where it is the fault of a program: options that there are not', () => {
    for (const options of [{ enviroment: {} }, { format: 'toml' }, { env: null }, null, 'json'])
      expect(() => parseConfig('name: a', options as never)).toThrow(/^parseConfig: (expected|unknown option `enviroment`)/);
  });

  it('never quotes a secret, wherever it stands: in a value, a variable, or a text that cannot be read', () => {
    const secret = 'sk-planted-0123456789';
    const places = [
      'name',
      'limits',
      'limits.concurrency',
      'limits.lanes',
      'model',
      'model.apiKey',
      'model.apiKeyEnv',
      'model.baseUrl',
      'model.retry',
      'model.options',
      'apiKey',
    ];
    const more = [
      'stages',
      'stages.0',
      'stages.0.name',
      'stages.0.scope',
      'batches.scheduling',
      'batches.priority',
      'expect.documents',
      'prices.m',
      'lane',
      'concurrency',
      'nonsense',
    ];
    for (const place of [...places, ...more]) {
      for (const given of [secret, '${KEY}', '${KEY} ${NONE}', '${KEY:-', [secret], { a: secret }]) {
        const value = place.split('.').reduceRight<unknown>((part, step) => (step === '0' ? [part] : { [step]: part }), given);
        const text = JSON.stringify(value);
        for (const input of [
          value,
          text,
          `${text}}`,
          `"${secret}: [${text}`,
          `? ${text}\n: 1`,
          `? [${text}]\n: 1`,
          `name: { ${text}: 1 }`,
        ]) {
          expect(JSON.stringify(problemsOf(input, { env: { KEY: secret } }))).not.toContain(secret);
        }
      }
    }
  });
});

describe('the time a file takes', () => {
  const keys = (count: number, line: (i: number) => string): string => Array.from({ length: count }, (_, i) => line(i)).join('\n');
  const FILES: readonly (readonly [string, (count: number) => string])[] = [
    ['unknown keys', (count) => keys(count, (i) => `k${String(i)}: 1`)],
    ['unknown keys, in JSON', (count) => `{${keys(count, (i) => `"k${String(i)}": 1,`)} "k": 1}`],
    ['one key again and again', (count) => keys(count, () => 'a: 1')],
    ['options of a model', (count) => `model:\n  options:\n${keys(count, (i) => `    k${String(i)}: 1`)}`],
    ['prices', (count) => `prices:\n${keys(count, (i) => `  m${String(i)}: {usdPerCall: 1}`)}`],
    ['stages with an unknown key', (count) => `stages:\n${keys(count, (i) => `  - {name: s${String(i)}, promt: 1}`)}`],
  ];

  it.each(FILES)('grows as %s do, and not as their square', { timeout: 120_000 }, (_, file) => {
    const cpuMs = (text: string): number => {
      const before = process.cpuUsage();
      parseConfig(text);
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1000;
    };
    const [few, many] = [file(1000), file(8000)];
    cpuMs(few);
    // Eight times as many: 8 when it is in proportion, 64 when it is not.
    expect(cpuMs(many)).toBeLessThan(24 * Math.max(20, Math.min(cpuMs(few), cpuMs(few))));
  });
});
