import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { marbleFiles } from '../support/marble-files.js';
import { axeFaults } from './support/axe.js';
import type { Web, WebPage } from './support/browser.js';
import { startWeb, until } from './support/browser.js';
import { serveFolder } from './support/folder.js';

// The documentation as a site, built as `npm run docs` builds it. The build fails at a link that leads nowhere.

const ROOT = resolve(import.meta.dirname, '../..');
const kebabCase = (camel: string): string => camel.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const pageOf = (name: string): string | undefined =>
  ['operators', 'pipelines'].map((part) => `${part}/${kebabCase(name)}`).find((path) => existsSync(join(ROOT, `docs/${path}.md`)));
const drawn = (await marbleFiles())
  .filter(({ specs }) => specs.some(({ cover }) => cover))
  .map(({ operator }) => ({ operator, page: pageOf(operator) ?? '' }));
const operators = readdirSync(join(ROOT, 'docs/operators')).map((name) => name.replace(/\.md$/, ''));
const camelCase = (kebab: string): string => kebab.replace(/-(\w)/g, (_all, letter: string) => letter.toUpperCase());

let folder: string;
let site: Awaited<ReturnType<typeof serveFolder>>;
let web: Web;
let tab: WebPage;
const requests: string[] = [];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-site-'));
  const vitepress = join(ROOT, 'node_modules/vitepress/bin/vitepress.js');
  [web] = await Promise.all([
    startWeb(),
    promisify(execFile)(process.execPath, [vitepress, 'build', 'docs', '--outDir', folder], { cwd: ROOT, maxBuffer: 2 ** 26 }),
  ]);
  site = await serveFolder(folder, '/');
  tab = await web.visit('about:blank');
  tab.page.on('request', (request) => requests.push(request.url()));
}, 240_000);
afterAll(async () => {
  await web.close();
  await site.close();
  rmSync(folder, { recursive: true, force: true });
});

const open = async (path: string) => {
  tab.errors.length = 0;
  await tab.page.goto(new URL(path, site.url).href);
};

describe('a drawing that can be touched', () => {
  it.each(drawn)('of $operator runs anew when a marble is dragged or an option is turned', async ({ page }) => {
    await open(`${page}.html`);
    const figure = tab.page.locator('.live-drawing[data-ready]');
    await figure.waitFor();
    const svg = () => figure.locator('svg').evaluate((element) => element.outerHTML.replace(/tabindex.*?class="handle"/g, ''));
    const before = await svg();
    const marble = figure.locator('circle.handle').first();
    const option = figure.locator('input[type=number]').first();
    if ((await marble.count()) > 0) {
      const box = await marble.boundingBox();
      if (box === null) throw new Error('the first marble cannot be seen');
      await tab.page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
      await tab.page.mouse.down();
      await tab.page.mouse.move(box.x + box.width / 2 + 20, box.y + box.height / 2);
      await tab.page.mouse.up();
    } else {
      await option.fill(String(Number(await option.inputValue()) + 1));
    }
    await until('the drawing has changed', async () => (await svg()) !== before);
    await figure.getByRole('button', { name: 'Reset' }).click();
    await until('the drawing is as before', async () => (await svg()) === before);
    expect(tab.errors).toEqual([]);
  });

  it('moves a marble by arrow keys, and keeps the focus', async () => {
    await open('operators/batch.html');
    const marble = tab.page.locator('.live-drawing circle.handle').first();
    await marble.focus();
    expect(await marble.getAttribute('aria-valuetext')).toBe('at 1 ms');
    await tab.page.keyboard.press('ArrowRight');
    const focused = tab.page.locator('.live-drawing circle:focus');
    await until('the marble has moved', async () => (await focused.getAttribute('aria-valuetext')) === 'at 2 ms');
  });
});

describe('the search', () => {
  it('finds each operator by its name', async () => {
    await open('contents.html');
    await tab.page.keyboard.press('Control+k');
    const input = tab.page.locator('.VPLocalSearchBox input');
    await input.waitFor();
    const missed: string[] = [];
    for (const operator of operators) {
      await input.fill(camelCase(operator));
      const found = tab.page.locator(`.VPLocalSearchBox a.result[href*="/operators/${operator}.html"]`).first();
      await found.waitFor({ timeout: 5000 }).catch(() => missed.push(operator));
    }
    expect(missed).toEqual([]);
  });
});

it('makes no request to other hosts', async () => {
  for (const path of ['index.html', 'operators/batch-map.html', 'playground.html']) await open(path);
  const { origin } = new URL(site.url);
  expect(requests.filter((url) => !url.startsWith(origin) && !/^(data|blob|about):/.test(url))).toEqual([]);
});

it.each(['index.html', 'operators/batch-map.html', 'guides/choosing.html'])(
  '%s fits a phone, and has no severe fault for assistive technology',
  async (path) => {
    await tab.page.setViewportSize({ width: 390, height: 844 });
    await open(path);
    expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
    expect(await axeFaults(tab.page, { onlySerious: true })).toEqual([]);
    await tab.page.setViewportSize({ width: 1440, height: 900 });
  },
);

it('can be read without JavaScript', async () => {
  const html = readFileSync(join(folder, 'operators/batch.html'), 'utf8');
  expect(html).toContain('Take <code>batch</code> when');
  expect(html).toMatch(/class="live-drawing"[^>]*>(?:<!--.*?-->)*<img src="[^"]+" alt="batch, drawn"/);
});

describe('for language models', () => {
  it('llms.txt names pages that are there, and each page is there as Markdown', () => {
    const index = readFileSync(join(folder, 'llms.txt'), 'utf8');
    const links = [...index.matchAll(/\]\(([^)]+)\)/g)].map(([, link = '']) => link);
    expect(links.filter((link) => !existsSync(join(folder, link)))).toEqual([]);
    for (const operator of operators) expect(links).toContain(`operators/${operator}.md`);
  });

  it('llms-full.txt has every page for users once', () => {
    const full = readFileSync(join(folder, 'llms-full.txt'), 'utf8');
    for (const operator of operators) expect(full.split(`\n# ${camelCase(operator)}\n`)).toHaveLength(2);
  });
});
