import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize, resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

let packed: ReadonlySet<string>;

beforeAll(() => {
  const list = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: project,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [{ files }] = JSON.parse(list) as [{ files: readonly { readonly path: string }[] }];
  packed = new Set(files.map(({ path }) => path));
}, 60_000);

/** Paths that a page links to, from the root of the package; code holds no links. */
function linksOf(page: string): string[] {
  const prose = readFileSync(join(project, page), 'utf8')
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .replaceAll(/`[^`\n]*\]\([^`\n]*`/g, '');
  return [...prose.matchAll(/\]\((?![a-z]+:|#)([^)\s#]+)[^)]*\)/g)].map(([, link = '']) => normalize(join(dirname(page), link)));
}

describe('the npm package', () => {
  it('holds the README, the changelog and every page of the documentation', () => {
    const pages = [...packed].filter((path) => path.endsWith('.md'));
    expect(pages).toEqual(
      expect.arrayContaining(['README.md', 'CHANGELOG.md', 'docs/README.md', 'docs/operators/batch-map.md', 'docs/guides/choosing.md']),
    );
    expect(linksOf('README.md').length).toBeGreaterThan(40);
  });

  it('holds whatever its pages link to', () => {
    const files = [...packed];
    const isPacked = (path: string): boolean => packed.has(path) || (path.endsWith('/') && files.some((file) => file.startsWith(path)));
    const broken = files
      .filter((path) => path.endsWith('.md'))
      .flatMap((page) => linksOf(page).flatMap((link) => (isPacked(link) ? [] : [`${page} -> ${link}`])));
    expect(broken).toEqual([]);
  });
});
