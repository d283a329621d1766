import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

/** Generated reports, and pages about the inside of Sluice. */
const forContributors = [
  'CONTRIBUTING.md',
  'docs/api/',
  'docs/architecture.md',
  'docs/behaviour.md',
  'docs/exercises.md',
  'docs/first-use.md',
  'docs/index.md',
  'docs/mutation.md',
  'docs/sizes.md',
  'docs/site/',
];
const isForContributors = (path: string): boolean =>
  forContributors.some((start) => path.startsWith(start)) || /^docs\/decisions|^marbles\/diagrams\/exercises\./.test(path);

const userPages = readdirSync(join(project, 'docs'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md'))
  .map((name) => `docs/${name}`)
  .filter((path) => !isForContributors(path));

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
  it('holds the README, the changelog, the security policy and every page for users', () => {
    const pages = [...packed].filter((path) => path.endsWith('.md'));
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'CHANGELOG.md', 'SECURITY.md', ...userPages]));
    expect(userPages.length).toBeGreaterThan(50);
    expect(linksOf('README.md').length).toBeGreaterThan(20);
    expect(linksOf('docs/README.md').length).toBeGreaterThan(40);
  });

  it('holds no generated page and no page for contributors alone', () => {
    expect(forContributors.filter((path) => !existsSync(join(project, path)))).toEqual([]);
    expect([...packed].filter(isForContributors)).toEqual([]);
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
