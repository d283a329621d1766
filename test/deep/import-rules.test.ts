import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');
const made: string[] = [];

afterEach(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A small project that keeps every rule. */
const clean = {
  'operators/index.ts': "export { batch } from './batch.js';",
  'operators/batch.ts':
    "import { Observable } from 'rxjs';\nimport { add } from './kernel/add.js';\nimport { count } from './options/options.js';\nexport const batch = [Observable, add, count];",
  'operators/kernel/add.ts': 'export const add = (a: number, b: number): number => a + b;',
  'operators/options/options.ts': "import { EMPTY } from 'rxjs';\nexport const count = EMPTY;",
  'operators/shell/start.ts': "import { of } from 'rxjs';\nexport const start = of;",
  'src/index.ts': "export * from '../operators/index.js';\nexport { embed } from './pipelines/embed.js';",
  'src/pipelines/embed.ts': "import { batch } from '../../operators/batch.js';\nexport const embed = batch;",
  'src/edge/index.ts': "export { schema } from './schema.js';",
  'src/edge/schema.ts': "import * as z from 'zod';\nexport const schema = z.string();",
  'marbles/index.ts': "export { run } from './run.js';",
  'marbles/run.ts': "import { TestScheduler } from 'rxjs/testing';\nexport const run = TestScheduler;",
};

/** One file each that breaks one rule, and the line the check has to print. */
const violations = [
  [
    'a kernel imports rxjs',
    'operators/kernel/bad.ts',
    "export { of } from 'rxjs';",
    'kernel-stands-alone: operators/kernel/bad.ts -> node_modules/rxjs/',
  ],
  [
    'a kernel imports what operators share',
    'operators/kernel/low.ts',
    "export { count } from '../options/options.js';",
    'kernel-stands-alone: operators/kernel/low.ts -> operators/options/options.ts',
  ],
  [
    'the shell imports an operator',
    'operators/shell/bad.ts',
    "export { batch } from '../batch.js';",
    'shell-imports-rxjs-only: operators/shell/bad.ts -> operators/batch.ts',
  ],
  [
    'an option imports the shell',
    'operators/options/bad.ts',
    "export { start } from '../shell/start.js';",
    'options-below-the-shell: operators/options/bad.ts -> operators/shell/start.ts',
  ],
  [
    'an operator imports src',
    'operators/up.ts',
    "export { embed } from '../src/pipelines/embed.js';",
    'operators-import-rxjs-only: operators/up.ts -> src/pipelines/embed.ts',
  ],
  [
    'an operator imports src for a type',
    'operators/up-type.ts',
    "import type { embed } from '../src/pipelines/embed.js';\nexport type Embed = typeof embed;",
    'operators-import-rxjs-only: operators/up-type.ts -> src/pipelines/embed.ts',
  ],
  [
    'an operator imports a Node module',
    'operators/timers.ts',
    "export { setTimeout } from 'node:timers';",
    'operators-import-rxjs-only: operators/timers.ts -> timers',
  ],
  [
    'an operator imports a package',
    'operators/parse.ts',
    "export { z } from 'zod';",
    'operators-import-rxjs-only: operators/parse.ts -> node_modules/zod/',
  ],
  [
    'an operator imports the barrel',
    'operators/barrel.ts',
    "export { batch } from './index.js';",
    'no-inner-barrel: operators/barrel.ts -> operators/index.ts',
  ],
  [
    'src imports the inside of operators',
    'src/deep.ts',
    "export { count } from '../operators/options/options.js';",
    'src-imports-public-files: src/deep.ts -> operators/options/options.ts',
  ],
  [
    'src imports the barrel',
    'src/pipelines/barrel.ts',
    "export { batch } from '../../operators/index.js';",
    'no-inner-barrel: src/pipelines/barrel.ts -> operators/index.ts',
  ],
  [
    'a pipeline imports zod',
    'src/pipelines/parse.ts',
    "export { string } from 'zod';",
    'zod-at-the-edge: src/pipelines/parse.ts -> node_modules/zod/',
  ],
  [
    'the root entry reaches zod',
    'src/index.ts',
    "export { schema } from './edge/schema.js';",
    'entries-without-zod: src/index.ts -> node_modules/zod/',
  ],
  [
    'the root entry reaches a Node module',
    'src/index.ts',
    "export { read } from './files.js';",
    'entries-without-node: src/index.ts -> fs',
  ],
  [
    'src imports a development package',
    'src/client.ts',
    "import PQueue from 'p-queue';\nexport { PQueue };",
    'peers-only: src/client.ts -> node_modules/p-queue/',
  ],
  [
    'src imports an SDK outside the adapters',
    'src/pipelines/chat.ts',
    "import OpenAI from 'openai';\nexport { OpenAI };",
    'sdks-in-adapters: src/pipelines/chat.ts -> node_modules/openai/',
  ],
  [
    'an adapter imports the engine',
    'src/adapters/fetch.ts',
    "export { queue } from '../engine/queue.js';",
    'adapters-without-engine: src/adapters/fetch.ts -> src/engine/queue.ts',
  ],
  [
    'the engine imports an adapter',
    'src/engine/worker.ts',
    "export { tools } from '../adapters/tools.js';",
    'engine-without-adapters: src/engine/worker.ts -> src/adapters/tools.ts',
  ],
  [
    'a pipeline imports the testing kit',
    'src/pipelines/kit.ts',
    "export { run } from '../../marbles/run.js';",
    'src-without-marbles: src/pipelines/kit.ts -> marbles/run.ts',
  ],
  [
    'the kit imports a test',
    'marbles/help.ts',
    "export { helper } from '../test/helper.js';",
    'library-without-tests: marbles/help.ts -> test/helper.ts',
  ],
  [
    'two operators import each other',
    'operators/ping.ts',
    "export { pong } from './pong.js';\nexport const ping = 1;",
    'no-cycles: operators/ping.ts -> operators/pong.ts',
  ],
] as const;

/** What the violations lean on; breaks nothing by itself. */
const props = {
  'operators/pong.ts': 'export const pong = 1;',
  'src/files.ts': "export { readFileSync as read } from 'node:fs';",
  'src/engine/queue.ts': 'export const queue = 1;',
  'src/adapters/tools.ts': 'export const tools = 1;',
  'test/helper.ts': 'export const helper = 1;',
};

function check(files: Readonly<Record<string, string>>): { status: number | null; output: string } {
  const root = mkdtempSync(join(tmpdir(), 'sluice-imports-'));
  made.push(root);
  copyFileSync(join(project, 'package.json'), join(root, 'package.json'));
  symlinkSync(join(project, 'node_modules'), join(root, 'node_modules'));
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(join(root, dirname(file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(project, '.ci/check-imports.mjs'), '--root', root], {
    encoding: 'utf8',
  });
  return { status, output: stdout + stderr };
}

describe('the import check', { timeout: 60_000 }, () => {
  it('passes a project that keeps the rules, and says how much it saw', () => {
    const { status, output } = check({ ...clean, ...props });
    expect(output).toContain('operators: saw 6 of 6 modules');
    expect(output).toContain('0 violations');
    expect(status).toBe(0);
  });

  it('names every planted violation', () => {
    const files: Record<string, string> = {
      ...clean,
      ...props,
      'operators/pong.ts': "export { ping } from './ping.js';\nexport const pong = 1;",
    };
    for (const [, file, text] of violations) files[file] = `${files[file] ?? ''}\n${text}`;
    const { status, output } = check(files);
    const missing = violations.filter(([, , , line]) => !output.includes(line)).map(([what]) => what);
    expect(missing).toEqual([]);
    expect(status).toBe(1);
  });

  it('fails when it saw no modules', () => {
    const { status, output } = check({ 'operators/README.md': 'empty', 'src/README.md': 'empty', 'marbles/README.md': 'empty' });
    expect(output).toContain('operators: no modules found');
    expect(status).toBe(1);
  });

  it('fails when it sees the files but not their imports', () => {
    const { status, output } = check({
      'operators/a.ts': 'export const a = 1;',
      'src/b.ts': 'export const b = 1;',
      'marbles/c.ts': 'export const c = 1;',
    });
    expect(output).toContain('only 0 imports in 3 modules');
    expect(status).toBe(1);
  });
});
