import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { roster } from '../../marbles/roster.js';
import { SPEC_CASES } from '../../marbles/spec.js';
import * as own from '../../operators/index.js';
import * as interop from '../../operators/interop.js';
import { fences } from '../support/doctest.js';
import { marbleFiles } from '../support/marble-files.js';
import { operators, values } from './files.js';
import { nodesOf, parsed } from './sources.js';

const project = resolve(import.meta.dirname, '../..');
const headings = ['## Contract', '## Defaults', '## Diagram', '## Telemetry', '## Patterns', '## Anti-patterns'];

const exported = { ...own, ...interop };

/** Files without a marble spec, and why: everything that is a stream has one. */
const withoutMarbles: Readonly<Record<string, string>> = {
  'adaptive-limit': 'moves a number of a limiter, and has no stream',
  'classify-error': 'a plain function from error to verdict',
  'create-intake': 'offers and reads are promises, which virtual time cannot draw',
  'from-native': 'hands on what the platform says, which has no `Observable` where specs are drawn',
  'from-stream': 'reads promises, which virtual time cannot draw',
  'to-async-iterable': 'is read through promises, which virtual time cannot draw',
  'to-native': 'makes an `Observable` of the platform, which has none where specs are drawn',
  'to-readable-stream': 'is read through promises, which virtual time cannot draw',
  'to-store': 'makes a store, which is asked and does not emit',
};

/** Where files without a marble spec answer what every operator is asked: titles of plain tests. Whatever is no stream is not asked. */
const casesInPlainTests: Readonly<Record<string, Readonly<Record<(typeof SPEC_CASES)[number], string>> | 'not a stream'>> = {
  'adaptive-limit': 'not a stream',
  'classify-error': 'not a stream',
  'create-intake': {
    never: 'keeps a consumer waiting while nothing is offered',
    empty: 'ends its consumer at once when it is closed with nothing in it',
    one: 'hands a single item to its consumer',
    many: 'hands out items in the order they were let in',
    error: 'stays open when a consumer throws',
    'early leave': 'stays open when a consumer leaves, and hands it nothing more',
    'throwing callback': 'rejects the one offer whose `lane` throws, or returns an undeclared lane',
    'synchronous source': 'takes a burst up to `maxQueued`, and the rest as there is room',
    're-entrant source': 'takes what a consumer offers while it is handed an item',
  },
  'from-native': {
    never: 'says nothing for one that says nothing',
    empty: 'completes on an empty one',
    one: 'hands on the only value',
    many: 'hands on all values in order',
    error: 'hands on an error as the same object',
    'early leave': 'aborts the signal in the moment of leaving, once, with an AbortError',
    'throwing callback': 'hands on what a callback of the producer, or its subscribe, throws',
    'synchronous source': 'stops a producer that emits inside subscribe as soon as its consumer has enough',
    're-entrant source': 'hands on what the consumer sends while it is handed a value',
  },
  'from-stream': {
    never: 'aborts a stalled stream in the moment of leaving, and closes it without waiting',
    empty: 'completes on an empty stream',
    one: 'emits the only chunk of a stream',
    many: 'emits the chunks and completes',
    error: 'errors with the same object when %s',
    'early leave': 'stops pulling when the consumer has enough',
    'throwing callback': 'errors with the same object when %s',
    'synchronous source': 'leaves a stream that always has its next chunk ready as soon as the consumer has enough',
    're-entrant source': 'emits what the consumer puts into the stream while it is handed a chunk',
  },
  'to-async-iterable': {
    never: 'waits for a source that says nothing, and leaves it',
    empty: 'ends on an empty source',
    one: 'reads the only value',
    many: 'reads all values in order',
    error: 'tells the error of the source as the same object, after the values that wait',
    'early leave': 'leaves the source when the loop is left',
    'throwing callback': 'goes on without a listener that throws',
    'synchronous source': 'reads what a source says inside subscribe',
    're-entrant source': 'reads what is sent while a value is handed over',
  },
  'to-native': {
    never: 'says nothing for a source that says nothing',
    empty: 'completes on an empty source',
    one: 'hands on the only value',
    many: 'hands on all values in order',
    error: 'hands on an error as the same object',
    'early leave': 'leaves the source in the moment the signal aborts',
    'throwing callback': 'hands on what a callback of the source throws',
    'synchronous source': 'stops a source that emits inside subscribe as soon as its consumer has enough',
    're-entrant source': 'hands on what the consumer sends while it is handed a value',
  },
  'to-readable-stream': {
    never: 'waits for a source that says nothing, and leaves it',
    empty: 'closes on an empty source',
    one: 'reads the only value',
    many: 'reads all values in order',
    error: 'errors with the error of the source as the same object, after the values that wait',
    'early leave': 'leaves the source at once when it is cancelled',
    'throwing callback': 'goes on without a listener that throws',
    'synchronous source': 'reads what a source says inside subscribe',
    're-entrant source': 'reads what is sent while a value is handed over',
  },
  'to-store': {
    never: 'keeps the initial value while the source says nothing',
    empty: 'keeps the initial value of an empty source',
    one: 'shows the only value',
    many: 'shows all values in order',
    error: 'tells its listeners of an error, which is the same object',
    'early leave': 'leaves the source with the last listener, and keeps the snapshot',
    'throwing callback': 'calls the other listeners when one throws, and reports what it threw as RxJS does',
    'synchronous source': 'shows what a source says inside subscribe',
    're-entrant source': 'shows what a listener sends into the source after all listeners were called',
  },
};

/** Files that cannot stand in the roster, because the laws want an operator on one source. Whatever has no marbles has no law. */
const withoutLaws: Readonly<Record<string, string>> = {
  ...withoutMarbles,
  'batch-map-from': 'pulls from an iterable instead of subscribing to a source',
  'from-subscribable': 'hands on what another stream says in the same moment, as `from` does, and keeps nothing',
  hedge: 'makes its own calls; there is no source to hold against the laws',
  policy: 'makes its own calls; there is no source to hold against the laws',
  'settle-all': 'makes a list of calls; there is no source to hold against the laws',
  speculate: 'reads two sources, and what one of them sends is held back for the other',
  'create-breaker': 'lets calls through; there is no source to hold against the laws',
  'create-limiter': 'grants leases; there is no source to hold against the laws',
};

function camelCase(file: string): string {
  return file.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function has(path: string): boolean {
  return existsSync(join(project, path));
}

function read(path: string): string {
  return readFileSync(join(project, path), 'utf8');
}

/** What is wrong with an operator's page; an empty list when nothing is. */
function pageProblems(name: string): string[] {
  const path = `docs/operators/${name}.md`;
  if (!has(path)) return [path];
  const lines = read(path).split('\n');
  const [title, chooser = ''] = lines.filter((line) => line.trim() !== '');
  const found = lines.filter((line) => headings.includes(line.trimEnd())).map((line) => line.trimEnd());
  return [
    ...(title === `# ${camelCase(name)}` ? [] : [`${path}: expected the title \`# ${camelCase(name)}\``]),
    ...(/^(?:[^#`|<]|```ts doctest)/.test(chooser)
      ? []
      : [`${path}: expected a line under the title that says when to choose it, or an example`]),
    ...(found.toSorted().join() === headings.toSorted().join()
      ? []
      : [`${path}: expected the headings ${headings.join(', ')}, got ${found.join(', ')}`]),
  ];
}

describe('every operator', () => {
  it('is exported from sluice/operators or sluice/interop under its own name', () => {
    expect(operators.filter((name) => !(camelCase(name) in exported))).toEqual([]);
  });

  it('has a marble spec, or a reason', () => {
    const missing = operators.filter((name) => !(name in withoutMarbles)).map((name) => `marbles/specs/${name}.marbles.ts`);
    expect(missing.filter((path) => !has(path))).toEqual([]);
  });

  it('answers in its marble specs, or in plain tests, what every operator is asked: each question once', async () => {
    // Drawings of pipelines show what they are for.
    const files = (await marbleFiles()).filter(({ operator }) => operators.map(camelCase).includes(operator));
    const inMarbles = files.flatMap(({ operator, specs }) =>
      SPEC_CASES.filter((question) => specs.filter(({ shows }) => shows === question).length !== 1).map(
        (question) => `${operator}: ${question}`,
      ),
    );
    const inPlainTests = Object.keys(withoutMarbles).flatMap((name) => {
      const titles = casesInPlainTests[name];
      if (titles === 'not a stream') return [];
      const tests = read(`test/operators/${name}.test.ts`);
      return SPEC_CASES.filter((question) => titles === undefined || !tests.includes(`('${titles[question]}', `)).map(
        (question) => `${name}: ${question}`,
      );
    });
    expect([...inMarbles, ...inPlainTests]).toEqual([]);
  });

  it('is held against the laws, or has a reason', () => {
    const held = new Set(roster.map((subject) => subject.operator));
    expect(operators.filter((name) => !(name in withoutLaws) && !held.has(camelCase(name)))).toEqual([]);
  });

  it('has a page with the fixed headings', () => {
    expect(operators.flatMap(pageProblems)).toEqual([]);
  });

  it('has a test file', () => {
    expect(operators.map((name) => `test/operators/${name}.test.ts`).filter((path) => !has(path))).toEqual([]);
  });

  it('has a type test', () => {
    expect(operators.map((name) => `test/types/${name}.test-d.ts`).filter((path) => !has(path))).toEqual([]);
  });
});

describe('every value', () => {
  it('is on the page of values, with its options', async () => {
    const page = read('docs/values.md');
    const exportedOnes = new Set<unknown>(Object.values(exported));
    const missing = await Promise.all(
      values.map(async (name) => {
        const own = (await import(`../../operators/${name}.ts`)) as Record<string, unknown>;
        const functions = Object.keys(own).filter((key) => typeof own[key] === 'function' && exportedOnes.has(own[key]));
        return functions.filter((key) => !page.includes(`\n### \`${key}\`\n`));
      }),
    );
    expect(missing.flat()).toEqual([]);
  });

  it('tells what an option is and what it is without it, as its type does', () => {
    const page = read('docs/values.md');
    const missing = values.flatMap((name) => optionsIn(`operators/${name}.ts`).filter((option) => !page.includes(`| \`${option}\` |`)));
    expect(missing).toEqual([]);
  });
});

/** Names of the properties of every exported interface called `…Options`. */
function optionsIn(path: string): string[] {
  const { file } = parsed(path, read(path));
  return nodesOf(file)
    .filter(ts.isInterfaceDeclaration)
    .filter(({ name }) => name.text.endsWith('Options'))
    .flatMap(({ members }) => members.flatMap(({ name }) => (name ? [name.getText(file)] : [])));
}

describe('the lists of exceptions', () => {
  it('name only what exists and has no spec or law after all', () => {
    const held = new Set(roster.map((subject) => subject.operator));
    const stale = [
      ...Object.keys(withoutLaws).filter((name) => !operators.includes(name)),
      ...Object.keys(withoutMarbles).filter((name) => has(`marbles/specs/${name}.marbles.ts`)),
      ...Object.keys(casesInPlainTests).filter((name) => !(name in withoutMarbles)),
      ...Object.keys(withoutLaws).filter((name) => held.has(camelCase(name))),
    ];
    expect(stale).toEqual([]);
  });
});

describe('the README', () => {
  it('gives the test command that `.ci/run` runs', () => {
    expect(read('README.md').split('\n')).toContain('npm ci && npm test');
    expect(read('.ci/run')).toContain('\nnpm ci && npm test ');
  });

  it('stays short: 9,000 bytes, two set-up commands, and examples of at most 8 lines', () => {
    const readme = read('README.md');
    expect(Buffer.byteLength(readme)).toBeLessThanOrEqual(9000);
    expect(fences(readme, 'sh').map(({ code }) => code)).toEqual(['npm ci && npm run demo', 'npm ci && npm test']);
    const lengths = fences(readme, 'ts doctest').map(({ code }) => code.split('\n').filter((line) => line.trim() !== '').length);
    expect(lengths).toHaveLength(4);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(8);
  });
});

describe('the release workflow', () => {
  interface Step {
    readonly uses?: string;
    readonly run?: string;
  }
  const { jobs } = parse(read('.github/workflows/release.yml')) as {
    readonly jobs: { readonly publish: { readonly permissions: Readonly<Record<string, string>>; readonly steps: readonly Step[] } };
  };
  const { permissions, steps } = jobs.publish;

  it('publishes with provenance, after all checks', () => {
    const commands = steps.flatMap(({ run }) => run ?? []);
    const [checks, published] = ['.ci/run', 'npm publish --provenance'].map((start) => commands.findIndex((run) => run.includes(start)));
    expect(checks).toBeGreaterThanOrEqual(0);
    expect(published).toBeGreaterThan(checks ?? Infinity);
  });

  it('may read the repository and identify itself, and uses no secret', () => {
    expect(permissions).toEqual({ contents: 'read', 'id-token': 'write' });
    expect(read('.github/workflows/release.yml')).not.toMatch(/secrets\.|NODE_AUTH_TOKEN|https?:/);
  });
});
