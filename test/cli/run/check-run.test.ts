import { appendFileSync, chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { buildCli, type CliResult, runHere } from '../../support/cli.js';
import { type FakeChat, startFakeChat } from '../../support/fake-chat-api.js';

let cwd: string;
let chat: FakeChat;

beforeEach(async () => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-check-'));
  chat = await startFakeChat();
});
afterEach(async () => {
  await chat.close();
  rmSync(cwd, { recursive: true, force: true });
});

interface Broken {
  readonly what: string;
  readonly config?: Readonly<Record<string, unknown>>;
  /** Beside the configuration, of which `in.jsonl` is one already. */
  readonly files?: Readonly<Record<string, string>>;
  readonly env?: NodeJS.ProcessEnv;
  /** All sentences, in their order. */
  readonly says: readonly string[];
}

const ROWS = '{"id":"a","text":"one","meta":{"title":"T"}}\n{"id":"b","text":"two","meta":{"title":"U"}}\n';
const ask = (prompt: string, more: object = {}): object => ({ name: 'reply', prompt, ...more });

function write({ config = {}, files = {} }: Pick<Broken, 'config' | 'files'>): void {
  const whole = {
    model: { baseUrl: chat.baseUrl, model: 'm' },
    stages: [ask('say {{text}}')],
    input: { path: 'in.jsonl' },
    output: { path: 'out.jsonl' },
    ...config,
  };
  writeFileSync(join(cwd, 'run.json'), JSON.stringify(whole));
  for (const [name, text] of Object.entries({ 'in.jsonl': ROWS, ...files })) writeFileSync(join(cwd, name), text);
}

const COMMANDS = [
  ['config', 'check', 'run.json'],
  ['run', 'run.json', '--dry-run'],
  ['run', 'run.json'],
] as const;

/** What a command prints of problems, one to a line. */
function sentencesOf({ stdout, stderr }: CliResult): string[] {
  const lines = `${stdout}${stderr}`.replaceAll(join(cwd, '/'), '').trimEnd().split('\n');
  return lines.map((line) => line.replace(/^(sluice: |run\.json: | +)/, '')).filter((line) => line !== '`run.json`:');
}

const first = (names: string, known: string): string => `${names} names no field of the first 2 rows and no earlier stage. ${known}`;

const BROKEN: readonly Broken[] = [
  { what: 'a key', config: { stagse: [] }, says: ['`stagse`, line 1: unknown key `stagse`. Did you mean `stages`?'] },
  {
    what: 'everything a run needs',
    config: { model: undefined, stages: undefined, output: undefined },
    says: ['a run needs `stages`', 'a run needs `output.path`', 'a run needs `model.baseUrl` (or SLUICE_BASE_URL)'],
  },
  { what: 'a prompt', config: { stages: [{ name: 'reply' }] }, says: ['a run needs `stages[0].prompt` or `chunk`'] },
  { what: 'a model', config: { model: { baseUrl: 'http://127.0.0.1:9' } }, says: ['a run needs `model.model`'] },
  {
    what: 'an address that is none, out of a variable',
    config: { model: { model: 'm' } },
    env: { SLUICE_BASE_URL: 'localhost' },
    says: ['sluice run: expected `baseUrl` to be an http(s) URL such as `https://host/v1`, got `localhost` (string)'],
  },
  {
    what: 'a key that is not set',
    config: { model: { baseUrl: 'http://127.0.0.1:9', model: 'm', apiKeyEnv: 'NO_SUCH_KEY' } },
    says: ['`model.apiKeyEnv`: the environment variable `NO_SUCH_KEY` is not set. Set it.'],
  },
  ...['gsk_0123456789', 'AKIAIOSFODNN7EXAMPLE'].map((key) => ({
    what: `a key where the name of a variable belongs: ${key}`,
    config: { model: { baseUrl: 'http://127.0.0.1:9', model: 'm', apiKeyEnv: key } },
    says: [
      '`model.apiKeyEnv`: no environment variable has this name. Write the name of the variable that holds the key, not the key itself.',
    ],
  })),
  {
    what: 'the path of a request in a variable',
    config: { model: { model: 'm' } },
    env: { SLUICE_BASE_URL: 'http://127.0.0.1:9/v1/embeddings' },
    says: ['SLUICE_BASE_URL ends in the path of a request, which is added to it. End it before `/chat/completions` or `/embeddings`.'],
  },
  {
    what: 'the path of a request in a variable that the file names',
    config: { model: { model: 'm', baseUrl: '${HERE}/chat/completions/' } },
    env: { HERE: 'http://127.0.0.1:9/v1' },
    says: [
      '`model.baseUrl`, line 1: the URL ends in the path of a request, which is added to it. End it before `/chat/completions` or `/embeddings`.',
    ],
  },
  {
    what: 'a key that cannot be sent',
    env: { SLUICE_API_KEY: 'a\nb' },
    says: ['sluice run: `apiKey` cannot be sent as a header. Remove line breaks and characters outside Latin-1.'],
  },
  {
    what: 'a lane',
    config: { lane: 'P7' },
    says: ['`lane`, line 1: unknown lane. Use `user`, `normal` or `background`, or declare it in `limits.lanes`.'],
  },
  {
    what: 'names of stages that are taken',
    config: { stages: [ask('say {{text}}', { name: 'id' }), ask('say {{text}}', { name: 'row' })] },
    says: [
      '`stages[0].name`: `id` is a field of every output line. Rename the stage.',
      '`stages[1].name`: `row` is a field of every output line. Rename the stage.',
    ],
  },
  {
    what: 'a limit for models without prices',
    config: {
      budget: { usd: 1 },
      prices: { unused: { usdPerCall: 1 } },
      stages: [ask('say {{text}}'), ask('say {{reply}}', { name: 'next', model: 'big' })],
    },
    says: ['m', 'big'].map(
      (model) => `\`budget.usd\` needs the price of the model \`${model}\`. Add it to \`prices\` in the configuration.`,
    ),
  },
  {
    what: 'a later stage, and a part of a text',
    config: { stages: [ask('say {{next}}'), ask('say {{reply.title}}', { name: 'next' })] },
    says: [
      '`stages[0].prompt`, line 1: `{{…}}` names a stage that has no answer yet. Use fields of the document and earlier stages.',
      '`stages[1].prompt`, line 1: `{{…}}` names a part of an answer that is a text. Name the stage alone, or use `answer: json` there.',
    ],
  },
  {
    what: 'a later stage, and a part of a text, to be cut',
    config: {
      stages: [
        { name: 'part', chunk: { field: 'part' } },
        { name: 'piece', chunk: { field: 'part.text' } },
      ],
    },
    says: [
      '`stages[0].chunk.field`, line 1: it names its own stage, which hides a field of that name. Rename the stage, or name another field.',
      '`stages[1].chunk.field`, line 1: it names a part of an answer that is a text. Name the stage alone, or use `answer: json` there.',
    ],
  },
  {
    what: 'a slip in the prompt of a second stage',
    config: { stages: [ask('ask about {{text}}', { name: 'question' }), ask('answer {{qestion}} of {{ text }}')] },
    says: [`\`stages[1].prompt\`: ${first('`{{qestion}}`', 'Did you mean `{{question}}`?')}`],
  },
  {
    what: 'a slip in a part of a field, and a name that is far from all',
    config: { stages: [ask('{{meta.titel}} {{meta.title}} {{whatever}} {{whatever}} {{text.deeper}}')] },
    says: [
      `\`stages[0].prompt\`: ${first('`{{meta.titel}}`', 'Did you mean `{{meta.title}}`?')}`,
      `\`stages[0].prompt\`: ${first('`{{whatever}}`', 'Known names: `{{id}}`, `{{text}}`, `{{meta}}`.')}`,
      `\`stages[0].prompt\`: ${first('`{{text.deeper}}`', 'Write `{{text}}`, which has no parts.')}`,
    ],
  },
  {
    what: 'a slip in what is cut',
    config: { stages: [{ name: 'part', chunk: { field: 'txt' } }] },
    says: [`\`stages[0].chunk.field\`: ${first('`{{txt}}`', 'Did you mean `{{text}}`?')}`],
  },
  {
    what: 'a field that a header lacks, though there are no rows',
    config: { input: { path: 'in.csv', id: 'key' }, stages: [ask('say {{txt}}')], batches: { scheduling: 'priority', priority: 'rank' } },
    files: { 'in.csv': 'id,text\n' },
    says: [
      '`stages[0].prompt`: `{{txt}}` names no field of the rows and no earlier stage. Did you mean `{{text}}`?',
      '`input.id`: `key` names no field of the rows. Known names: `id`, `text`.',
      '`batches.priority`: `rank` names no field of the rows. Known names: `id`, `text`.',
    ],
  },
  {
    what: 'a field that documents do not have, of an empty folder',
    config: { input: { path: 'papers' }, stages: [ask('say {{content}}')] },
    says: [
      '`stages[0].prompt`: `{{content}}` names no field of the rows and no earlier stage. Known names: `{{path}}`, `{{name}}`, `{{text}}`.',
    ],
  },
  {
    what: 'an id that no row has',
    config: { input: { path: 'in.jsonl', id: 'ids' } },
    says: ['`input.id`: `ids` names no field of the first 2 rows. Did you mean `id`?'],
  },
  {
    what: 'an input that is not there',
    config: { input: { path: 'none.jsonl' } },
    says: ['cannot read the input `none.jsonl`: there is no such file or folder'],
  },
  {
    what: 'an input of a kind that nobody knows',
    config: { input: { path: 'in.txt' } },
    files: { 'in.txt': 'words' },
    says: ['what is in `in.txt`? Its name ends neither in .jsonl nor .csv: give `input.format`'],
  },
  {
    what: 'a header with a name twice',
    config: { input: { path: 'in.csv' } },
    files: { 'in.csv': 'text,text\na,b\n' },
    says: ['the header of `in.csv` has `text` twice'],
  },
  {
    what: 'a table without a header',
    config: { input: { path: 'in.csv' } },
    files: { 'in.csv': '' },
    says: ['`in.csv` has no header: its first line names the fields'],
  },
  {
    what: 'an output that is the input',
    config: { output: { path: 'in.jsonl' } },
    says: ['the input `in.jsonl` and the output `in.jsonl` are one file. Rename one of them.'],
  },
  {
    what: 'an output in a file',
    config: { output: { path: 'in.jsonl/deep/out.jsonl' } },
    says: ['cannot write the output `in.jsonl/deep/out.jsonl`: a part of the path is not a folder (ENOTDIR)'],
  },
  {
    what: 'failures in a file',
    config: { output: { path: 'out.jsonl', failures: 'in.jsonl/f.jsonl' } },
    says: ['cannot write the failures `in.jsonl/f.jsonl`: a part of the path is not a folder (ENOTDIR)'],
  },
  {
    what: 'an output that is a folder',
    config: { output: { path: 'papers' } },
    says: ['the output `papers` is a folder, not a file to write to'],
  },
  {
    what: 'an output without a journal',
    files: { 'out.jsonl': 'mine\n' },
    says: ['`out.jsonl` is there already, and no journal belongs to it; give another `output.path`, or remove it first'],
  },
  {
    what: 'a journal that is none',
    files: { 'out.jsonl.journal': 'Dear diary\n' },
    says: ['`out.jsonl.journal` is there already and is not a journal; give another `output.path`, or remove it first'],
  },
  {
    what: 'failures of something else',
    config: { output: { path: 'out.jsonl', failures: 'f.jsonl' } },
    files: { 'f.jsonl': 'mine\n' },
    says: ['`f.jsonl` is there already, and no journal belongs to it; give another `output.failures`, or remove it first'],
  },
  {
    what: 'a budget that is none',
    config: { prices: { m: { usdPerCall: 1 } } },
    files: { 'out.jsonl.budget': 'Dear diary\n' },
    says: ['`out.jsonl.budget` is there already and holds no budget; give another name, or remove it first'],
  },
  {
    what: 'a cache that is something else',
    config: { model: { baseUrl: 'http://127.0.0.1:9', model: 'm', cache: { path: 'mine' } } },
    files: { mine: 'notes of mine\n' },
    says: ['`mine` is there already and is not a journal; give another `model.cache.path`, or remove it first'],
  },
  {
    what: 'a cache that is the journal of another run',
    config: { model: { baseUrl: 'http://127.0.0.1:9', model: 'm', cache: { path: 'mine' } } },
    files: { mine: '0123456789abcdef {"format":"sluice-run"}\n' },
    says: ['`mine` is there already and is not a cache of answers; give another `model.cache.path`, or remove it first'],
  },
  {
    what: 'several things at once',
    config: { stages: [ask('say {{txt}}', { name: 'item' })], output: { path: 'in.csv/out.jsonl' }, budget: { usd: 1 } },
    files: { 'in.csv': '' },
    says: [
      '`stages[0].name`: `item` is a field of every output line. Rename the stage.',
      '`budget.usd` needs the price of the model `m`. Add it to `prices` in the configuration.',
      'cannot write the output `in.csv/out.jsonl`: a part of the path is not a folder (ENOTDIR)',
    ],
  },
];

describe('a check, a dry run and a run say the same, send nothing and write nothing', () => {
  it.each(BROKEN)('of $what', async ({ config, files, env = {}, says }) => {
    mkdirSync(join(cwd, 'papers'));
    write({ ...(config && { config }), ...(files && { files }) });
    const before = readdirSync(cwd).sort();
    for (const command of COMMANDS) {
      const result = await runHere([...command], { cwd, env });
      expect([command, sentencesOf(result), result.code]).toEqual([command, says, 2]);
      expect(command[0] === 'config' ? result.stderr : result.stdout).toBe('');
    }
    expect([chat.calls, readdirSync(cwd).sort()]).toEqual([0, before]);
  });

  it.runIf(process.getuid?.() === 0)('of files that the user may not read or write', async () => {
    const cli = await buildCli();
    mkdirSync(join(cwd, 'mine'));
    write({ config: { output: { path: 'out.jsonl', failures: 'mine/f.jsonl' } }, files: { 'out.jsonl': '' } });
    for (const name of ['.', 'mine']) chmodSync(join(cwd, name), name === 'mine' ? 0o755 : 0o777);
    const saysFor = async (): Promise<(readonly [readonly string[], number | null])[]> => {
      const results: CliResult[] = [];
      for (const command of COMMANDS) results.push(await cli.start([...command], { cwd, uid: 65_534 }).ended);
      return results.map((result) => [sentencesOf(result), result.code]);
    };
    const refused = (...says: string[]): unknown => COMMANDS.map(() => [says, 2]);
    expect(await saysFor()).toEqual(refused('cannot write the output `out.jsonl`: permission denied (EACCES)'));
    rmSync(join(cwd, 'out.jsonl'));
    expect(await saysFor()).toEqual(refused('cannot write the failures `mine/f.jsonl`: permission denied (EACCES)'));
    write({});
    chmodSync(join(cwd, 'in.jsonl'), 0o600);
    expect(await saysFor()).toEqual(refused('cannot read the input `in.jsonl`: permission denied'));
    expect(chat.calls).toBe(0);
  });

  it.each<readonly [string, readonly string[], string]>([
    [
      'events of something else',
      ['--events', 'mine'],
      '`mine` is there already and is not a file of events; give another name, or remove it first',
    ],
    [
      'a summary of something else',
      ['--json', 'mine'],
      '`mine` is there already and is not a summary; give another name, or remove it first',
    ],
    ['events in no folder', ['--events', 'none/e.jsonl'], 'cannot write the events `none/e.jsonl`: the folder does not exist (ENOENT)'],
    ['a summary in no folder', ['--json', 'none/s.json'], 'cannot write the summary `none/s.json`: the folder does not exist (ENOENT)'],
    [
      'a limit without a price',
      ['--max-usd', '1'],
      '`--max-usd` needs the price of the model `m`. Add it to `prices` in the configuration.',
    ],
  ])('of %s on the command line', async (_what, flags, says) => {
    write({ files: { mine: 'Dear diary\n' } });
    for (const more of [['--dry-run'], []])
      expect(await runHere(['run', 'run.json', ...flags, ...more], { cwd })).toMatchObject({
        code: 2,
        stdout: '',
        stderr: `sluice: ${says}\n`,
      });
    expect([chat.calls, readdirSync(cwd).sort()]).toEqual([0, ['in.jsonl', 'mine', 'run.json']]);
  });

  it('of nothing, when nothing is wrong', async () => {
    write({ config: { stages: [ask('say {{text}} {{meta.title}}')], prices: { unused: { usdPerCall: 1 } } } });
    const results: CliResult[] = [];
    for (const command of COMMANDS) results.push(await runHere([...command], { cwd }));
    expect(results[0]).toMatchObject({ code: 0, stdout: 'run.json: nothing is wrong\n' });
    expect([results.map(({ code }) => code), chat.calls]).toEqual([[0, 0, 0], 2]);
    // And of what the run has left.
    for (const command of COMMANDS) expect((await runHere([...command], { cwd })).code).toBe(0);
  });
});

describe('notes', () => {
  it('tell of a stage that hides a field, and of a priority that no row has', async () => {
    write({
      config: {
        stages: [ask('say {{id}}', { name: 'text' }), ask('more of {{text}}', { name: 'meta' })],
        batches: { scheduling: 'priority', priority: 'rank' },
      },
    });
    const notes = [
      'note: `batches.priority`: `rank` names no field of the first 2 rows. Known names: `id`, `text`, `meta`. Rows without it have the priority 0.',
      'note: `stages[0].name`: `text` is a field of the rows as well. In later stages `{{text}}` is the answer of this stage. Rename the stage to name the field there.',
    ];
    const [checked, dry] = [await runHere([...COMMANDS[0]], { cwd }), await runHere([...COMMANDS[1]], { cwd })];
    expect(checked).toMatchObject({ code: 0, stdout: [...notes, 'nothing is wrong'].map((line) => `run.json: ${line}\n`).join('') });
    expect(dry.stderr).toBe(notes.map((line) => `${line}\n`).join(''));
  });

  it('tell of an input without rows', async () => {
    write({ files: { 'in.jsonl': '' } });
    expect((await runHere([...COMMANDS[1]], { cwd })).stdout).toMatch(/^note: the input has no rows\n/);
    expect((await runHere([...COMMANDS[2]], { cwd })).stdout).toMatch(/^note: the input has no rows\n/);
  });
});

describe('lines behind what the journal knows', () => {
  it.each([
    ['out.jsonl', '{"mine":1}\n'],
    ['out.jsonl', 'a word'],
    ['out.jsonl.failures.jsonl', '{"id":"a","mine":1}\n'],
  ])('are not cut off when no run has written them: %s %s', async (name, added) => {
    write({ files: { 'in.jsonl': `${ROWS}no JSON\n` } });
    expect((await runHere([...COMMANDS[2]], { cwd })).code).toBe(1);
    appendFileSync(join(cwd, name), added);
    const before = readFileSync(join(cwd, name), 'utf8');
    for (const command of COMMANDS) {
      const result = await runHere([...command], { cwd });
      const says = `\`${name}\` has lines at its end that no run has written, and a run would cut them off; move them to another file`;
      expect([command, sentencesOf(result), result.code]).toEqual([command, [says], 2]);
    }
    expect(readFileSync(join(cwd, name), 'utf8')).toBe(before);
  });

  it('are told of when they are cut off', async () => {
    write({});
    await runHere([...COMMANDS[2]], { cwd });
    const written = readFileSync(join(cwd, 'out.jsonl'), 'utf8');
    appendFileSync(join(cwd, 'out.jsonl'), '{"id":"x","row":9,"reply":"y"}\n{"i');
    expect((await runHere([...COMMANDS[2]], { cwd })).stdout).toMatch(
      /^note: 2 lines at the end of `out\.jsonl` that the journal does not know were cut off: the run writes again what a killed run had written\n/,
    );
    expect(readFileSync(join(cwd, 'out.jsonl'), 'utf8')).toBe(written);
  });
});

describe('the first rows of an input', () => {
  const line = (fields: object): string => `${JSON.stringify(fields)}\n`;
  const checked = async (rows: string, prompt = 'say {{late}}'): Promise<CliResult> => {
    write({ config: { stages: [ask(prompt)] }, files: { 'in.jsonl': rows } });
    return runHere(['config', 'check', 'run.json'], { cwd });
  };

  it.each([
    [99, 0],
    [100, 2],
  ])('are a hundred: a field of the one behind %i', async (before, code) => {
    const { stdout, code: found } = await checked(`${line({ text: 'x' }).repeat(before)}${line({ late: 1 })}`);
    expect(found).toBe(code);
    if (code === 2) expect(stdout).toContain('names no field of the first 100 rows and no earlier stage');
  });

  it('are a million characters', async () => {
    const long = line({ text: 'x'.repeat(400_000) });
    expect((await checked(`${long.repeat(2)}${line({ late: 1 })}`)).code).toBe(0);
    expect((await checked(`${long.repeat(3)}${line({ late: 1 })}`)).code).toBe(2);
  });

  it('say nothing when there are none, or all of them are none', async () => {
    for (const rows of ['', 'no JSON\n'.repeat(3)]) expect((await checked(rows)).code).toBe(0);
  });

  it('may be behind some that are none, and each have other fields', async () => {
    expect((await checked(`no JSON\n[]\n${line({ late: null })}`)).code).toBe(0);
    expect((await checked(`${line({ a: { b: 1 } })}${line({ a: 1 })}`, '{{a.b}}')).code).toBe(0);
  });

  it('are compared with names of any length, and of any characters', async () => {
    const { stdout, code } = await checked(line({ ['x'.repeat(100_000)]: 1, '\u001b[2J\n': 1 }), `{{${'y'.repeat(100_000)}}}`);
    expect([code, stdout.split('\n').length]).toEqual([2, 2]);
    // oxlint-disable-next-line no-control-regex -- they are what is looked for
    expect(stdout).not.toMatch(/\u001b|[xy]{100}/);
  });
});

describe('a configuration for code', () => {
  it('needs nothing that a run needs, and a check says what that would be', async () => {
    writeFileSync(join(cwd, 'code.json'), JSON.stringify({ stages: [ask('say {{text}}')] }));
    expect(await runHere(['config', 'check', 'code.json'], { cwd })).toMatchObject({
      code: 0,
      stdout: 'code.json: nothing is wrong; `sluice run` needs `input.path` and `output.path` as well\n',
    });
  });
});
