import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { licencesOf } from '../../.ci/licences.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-licences-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

/** A package that exports its own name twice. */
function install(name: string, files: Readonly<Record<string, string>>, license: unknown = 'MIT'): void {
  const path = `node_modules/${name}`;
  write(`${path}/package.json`, JSON.stringify({ name, version: '1.2.3', license, sideEffects: false, type: 'module' }));
  write(`${path}/index.js`, `export const used = ${JSON.stringify(name)}; export const unused = used + used;`);
  for (const [file, text] of Object.entries(files)) write(`${path}/${file}`, text);
}

/** What the plugin writes when this code is bundled. */
async function licences(code: string, ...more: readonly string[]): Promise<string> {
  const file = join(folder, 'LICENCES');
  const plugin = licencesOf(file);
  for (const contents of [code, ...more]) {
    await build({
      stdin: { contents, resolveDir: folder },
      absWorkingDir: folder,
      bundle: true,
      write: false,
      format: 'esm',
      logLevel: 'silent',
      plugins: [plugin],
    });
  }
  return readFileSync(file, 'utf8');
}

describe('the licences of bundled packages', () => {
  it('are listed and written out, with their notices', async () => {
    install('with-notice', { 'LICENSE.txt': 'Apache terms\r\n', NOTICE: 'Made by N.\n' }, 'Apache-2.0');
    install('@scope/plain', { license: 'MIT terms\n' });
    const text = await licences("import { used as a } from 'with-notice'; import { used as b } from '@scope/plain'; console.log(a, b);");
    expect(text).toContain('  @scope/plain 1.2.3 (MIT)\n  with-notice 1.2.3 (Apache-2.0)\n');
    expect(text.split('\n').filter((line) => /terms|Made/.test(line))).toEqual(['MIT terms', 'Apache terms', 'Made by N.']);
  });

  it('leave out packages of which the bundler kept nothing, and packages that stay outside', async () => {
    install('kept', { LICENSE: 'terms of kept' });
    install('dropped', {});
    const text = await licences("import { used } from 'kept'; import { unused } from 'dropped'; console.log(used);");
    expect(text).toContain('terms of kept');
    expect(text).not.toContain('dropped');
  });

  it('of several builds are in one file, each package once', async () => {
    for (const name of ['first', 'second', 'both']) install(name, { LICENSE: `terms of ${name}` });
    const bundling = (name: string): string =>
      `import { used } from '${name}'; import { used as too } from 'both'; console.log(used, too);`;
    const text = await licences(bundling('first'), bundling('second'));
    expect(text.match(/terms of \w+/g)).toEqual(['terms of both', 'terms of first', 'terms of second']);
  });

  it.each([
    ['no licence text', {}, 'MIT'],
    ['an empty licence text', { LICENSE: '\n' }, 'MIT'],
    ['a notice alone', { NOTICE: 'Made by N.' }, 'MIT'],
    ['no licence in its package.json', { LICENSE: 'terms' }, undefined],
  ])('fail the build for a package with %s', async (_what, files, license) => {
    install('nameless', files);
    write('node_modules/nameless/package.json', JSON.stringify({ name: 'nameless', version: '1.2.3', license, type: 'module' }));
    await expect(licences("import { used } from 'nameless'; console.log(used);")).rejects.toThrow(
      'bundled packages without a licence text: nameless 1.2.3',
    );
  });
});
