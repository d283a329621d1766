// The site: `docs/` as it is, with a drawing to touch on each operator's page, the playground, and each page as Markdown. `npm run docs` builds it.
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, posix, resolve } from 'node:path';
import type { MarkdownRenderer, SiteConfig } from 'vitepress';
import { defineConfig } from 'vitepress';
import { buildPlayground } from '../../examples/playground/build.js';
import { llmsTxt } from './llms.mjs';
import { inside, learn, recipes, reference, type Section } from './pages.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const DOCS = join(ROOT, 'docs');
/** Files outside `docs/` that pages link to, and where they are in the site. */
const ELSEWHERE: Readonly<Record<string, string>> = { 'README.md': '/', 'CHANGELOG.md': '/site/changelog', 'SECURITY.md': '/site/security' };

const DIAGRAMS = 'marbles/diagrams/';

const sidebar = (sections: readonly Section[]) => sections.map(({ text, items }) => ({ text, items: [...items] }));
const sidebars = { learn: sidebar(learn), recipes: sidebar(recipes), reference: sidebar(reference), inside: sidebar(inside) };
const pathsOf = (sections: readonly Section[]) => sections.flatMap(({ items }) => items.map(({ link }) => link));

export default defineConfig({
  title: 'Sluice',
  description: 'Flow control for AI agents in TypeScript: calls to models and tools as fast as an account allows, the user first, none lost.',
  lang: 'en',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  base: process.env['SITE_BASE'] ?? '/',
  srcExclude: ['api/**', 'skills/**'],
  rewrites: { 'README.md': 'contents.md', ':folder/README.md': ':folder/index.md' },
  // Colours of code that pass the contrast of WCAG AA.
  markdown: { config: ownRules, theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' } },
  vite: {
    build: { chunkSizeWarningLimit: 2000 },
    resolve: { alias: { '#async-context': join(ROOT, 'operators/shell/calls/async-context.ts') } },
  },
  themeConfig: {
    search: { provider: 'local' },
    nav: [
      { text: 'Learn', link: '/guides/first-steps', activeMatch: '^/(guides/first-steps|guides/choosing)' },
      { text: 'Recipes', link: '/recipes/user-behind-the-index', activeMatch: '^/recipes/' },
      { text: 'Reference', link: '/operators/batch-map', activeMatch: '^/(operators|pipelines|adapters)/' },
      { text: 'Inside', link: '/architecture' },
      { text: 'Playground', link: '/playground' },
    ],
    sidebar: Object.fromEntries(
      ([['learn', learn], ['recipes', recipes], ['reference', reference], ['inside', inside]] as const).flatMap(([name, sections]) =>
        [...new Set(pathsOf(sections))].map((path) => [path.replace(/\/index$/, '/'), sidebars[name]]),
      ),
    ),
    outline: { level: [2, 3] },
    docFooter: { prev: false, next: false },
  },
  buildEnd: addFiles,
});

/** Links of pages lead to pages of the site, and an operator's page begins with its drawing. */
function ownRules(markdown: MarkdownRenderer): void {
  // Braces are text here; in a template of Vue two of them are code.
  for (const rule of ['text', 'code_inline'] as const) {
    const render = markdown.renderer.rules[rule];
    if (render) markdown.renderer.rules[rule] = (...given) => render(...given).replaceAll('{{', '&#123;&#123;');
  }
  markdown.core.ruler.push('sluice', (state) => {
    const path = String((state.env as { path?: string }).path ?? '');
    const file = path.slice(DOCS.length + 1);
    for (const token of state.tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.type === 'link_open' ? token.attrGet('href') : null;
      if (href && !/^[a-z]+:|^#|^\//.test(href)) token.attrSet('href', siteLink(file, href));
    }
    const operator = /^(?:operators|pipelines)\/(.+)\.md$/.exec(file)?.[1];
    const heading = state.tokens.findIndex(({ type }) => type === 'heading_close');
    if (operator && heading >= 0 && existsSync(join(ROOT, `marbles/specs/${operator}.marbles.ts`))) {
      const name = operator.replace(/-(\w)/g, (_all, letter: string) => letter.toUpperCase());
      const drawing = new state.Token('html_block', '', 0);
      drawing.content = `<LiveDrawing page="${operator}"><img src="../../marbles/diagrams/${name}.svg" alt="${name}, drawn"></LiveDrawing>\n`;
      state.tokens.splice(heading + 1, 0, drawing);
    }
  });
}

function siteLink(file: string, href: string): string {
  const [target = '', hash] = href.split('#');
  // The pages of `site/` show files of the repository's root.
  const path = file.startsWith('site/') ? posix.normalize(target) : posix.join('docs', posix.dirname(file), target);
  if (path.startsWith(DIAGRAMS)) return `/diagrams/${posix.basename(path)}`;
  const inside = path.startsWith('docs/') ? `/${path.slice('docs/'.length)}` : ELSEWHERE[path];
  if (inside === undefined) return href;
  const page = inside.replace(/^\/README\.md$/, '/contents').replace(/README\.md$/, '').replace(/\.md$/, '');
  return hash === undefined ? page : `${page}#${hash}`;
}

/** What a site has beside its pages: each as Markdown, the two files for language models, and the playground. */
async function addFiles({ outDir, pages, rewrites }: SiteConfig): Promise<void> {
  const texts = new Map<string, string>();
  for (const page of pages.filter((name) => name !== 'index.md')) {
    const source = join(DOCS, page);
    const text = (await readFile(source, 'utf8')).replace(/<!--@include: (.+?)-->/g, '$1');
    const included = /^(\.\.\/.+\.md)\s*$/.exec(text)?.[1];
    const whole = included ? await readFile(resolve(dirname(source), included), 'utf8') : text;
    const to = rewrites.map[page] ?? page;
    texts.set(to, whole);
    await mkdir(dirname(join(outDir, to)), { recursive: true });
    await writeFile(join(outDir, to), whole);
  }
  const { index, full } = llmsTxt(texts);
  await writeFile(join(outDir, 'llms.txt'), index);
  await writeFile(join(outDir, 'llms-full.txt'), full);
  await cp(join(ROOT, DIAGRAMS), join(outDir, 'diagrams'), { recursive: true, filter: (path) => !path.endsWith('.svg') });
  await buildPlayground(join(outDir, 'play'));
}
