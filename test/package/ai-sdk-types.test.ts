import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const COMPILER = join(ROOT, 'node_modules/typescript7/bin/tsc');
const FOLDER = 'test/types/ai';

const VERSIONS = {
  'AI SDK 7': { ai: 'ai', '@ai-sdk/openai-compatible': '@ai-sdk/openai-compatible' },
  'AI SDK 6': { ai: 'ai6', '@ai-sdk/openai-compatible': 'openai-compatible2' },
} as const;

describe('what is written for the AI SDK', () => {
  it.each(Object.entries(VERSIONS))('compiles with %s', { timeout: 120_000 }, (name, packages) => {
    const paths = Object.fromEntries(Object.entries(packages).map(([as, folder]) => [as, [`./node_modules/${folder}/dist/index.d.ts`]]));
    const compilerOptions = { paths: { ...paths, '#async-context': ['./operators/shell/calls/async-context.ts'] } };
    const config = join(ROOT, `tsconfig.${name.replaceAll(' ', '-')}.tmp.json`);
    writeFileSync(config, JSON.stringify({ extends: './tsconfig.json', compilerOptions, include: [FOLDER], exclude: [] }));
    try {
      const { stdout } = spawnSync(process.execPath, [COMPILER, '-p', config, '--pretty', 'false'], { cwd: ROOT, encoding: 'utf8' });
      // Our sources are written against one version: their declarations are what counts.
      const errors = stdout.split('\n').filter((line) => line.startsWith(FOLDER));
      expect(stdout).not.toMatch(/error TS(?:18003|5\d{3})/);
      expect(errors).toEqual([]);
    } finally {
      rmSync(config);
    }
  });
});
