import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { buildPlayground } from '../../../examples/playground/build.js';
import { copiedCode } from '../../../examples/playground/engine/code.js';
import { loadPreset } from '../../../examples/playground/engine/preset.js';
import type { PresetName } from '../../../examples/playground/engine/scenario.js';
import { PRESETS } from '../../../examples/playground/engine/scenario.js';
import type { Counts, Scenario } from '../../../examples/playground/engine/setting.js';
import { createWorld } from '../../../examples/playground/engine/world.js';
import type { SluiceInspector } from '../../../src/inspector/index.js';
import { importRecording } from '../../../src/inspector/index.js';
import { axeFaults } from '../../web/support/axe.js';
import type { Web, WebPage } from '../../web/support/browser.js';
import { startWeb, until } from '../../web/support/browser.js';
import { serveFolder } from '../../web/support/folder.js';

const ROOT = resolve(import.meta.dirname, '../../..');
/** For people to look at; CI keeps it. */
const PICTURES = join(ROOT, '.screenshots');
const NAMES = Object.keys(PRESETS) as PresetName[];

let web: Web;
let folder: string;
let site: Awaited<ReturnType<typeof serveFolder>>;
let shared: Opened;
/** `npm run playground`, and what it prints. */
let served: ChildProcess;
let printed: Promise<string>;
beforeAll(async () => {
  const command = spawn('npm', ['run', '--silent', 'playground'], { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  served = command;
  printed = once(command.stdout, 'data').then(String);
  folder = await mkdtemp(join(tmpdir(), 'playground-'));
  [web] = await Promise.all([startWeb(), buildPlayground(folder), mkdir(PICTURES, { recursive: true })]);
  // It works below any path.
  site = await serveFolder(folder, '/some/where/');
  shared = await newTab();
}, 60_000);
afterAll(async () => {
  process.kill(-served.pid!, 'SIGTERM');
  await Promise.all([web.close(), site.close()]);
  await rm(folder, { recursive: true, force: true });
});

interface Opened extends WebPage {
  /** Addresses asked for. */
  readonly requests: string[];
}

/** A tab and a profile of its own. */
async function newTab(): Promise<Opened> {
  const opened = await web.visit('about:blank');
  await opened.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const requests: string[] = [];
  opened.page.on('request', (request) => requests.push(request.url()));
  return { ...opened, requests };
}

/** Loads what the address says, and waits until it is drawn. */
async function load({ page }: Opened, hash: string): Promise<void> {
  // Another part of the same address would load nothing.
  if (page.url() !== 'about:blank') await page.goto('about:blank');
  await page.goto(site.url + hash);
  await page.waitForSelector('html[data-ready]');
}

/** The page in the tab of all, loaded anew: of a test before, nothing is left. */
async function open(hash = ''): Promise<Opened> {
  const { page, errors, requests } = shared;
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  await page.setViewportSize({ width: 1280, height: 720 });
  errors.length = requests.length = 0;
  await load(shared, hash);
  return shared;
}

/** Another address in a page that is open. */
async function go(page: Page, name: PresetName, rest: string): Promise<void> {
  await page.evaluate((hash) => (location.hash = hash), `preset=${name}${rest}`);
  await page.waitForSelector(`html[data-ready="${name}"]`);
}

/** A button of the page, not of a picture. */
const button = (page: Page, name: string) =>
  page.locator(':is(.transport, .actions, .board > *) > button', { hasText: new RegExp(`^${name}$`) });

/** The numbers of both boards, as they stand on the page. */
function shown(page: Page): Promise<Record<string, string>> {
  return page.$$eval('[data-number]', (cells) =>
    Object.fromEntries(cells.map((cell) => [(cell as HTMLElement).dataset['number'] ?? '', cell.textContent])),
  );
}

const nowMs = async (page: Page): Promise<number> => Number.parseFloat(await page.innerText('.clock')) * 1000;

/** What a run in Node counts. */
async function counted(name: PresetName, scenario: Partial<Scenario>, atMs: number): Promise<Record<string, Counts>> {
  const preset = await loadPreset[name]();
  const world = createWorld({ ...preset.scenario, ...scenario }, preset.pipeline, () => undefined);
  world.advance(atMs);
  const counts = { plain: world.boards.plain.counts, sluice: world.boards.sluice.counts };
  world.close();
  return counts;
}

const time = (ms: number): string => (ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${String(Math.round(ms))} ms`);
const amount = (value: number): string => (value >= 100_000 ? `${String(Math.round(value / 1000))} k` : value.toLocaleString('en'));

/** The counts as the page writes them. */
function written(counts: Record<string, Counts>): Record<string, string> {
  const { open: _plain, ...plain } = counts['plain'] as Counts;
  const { open: _sluice, ...sluice } = counts['sluice'] as Counts;
  const both = { plain, sluice };
  return Object.fromEntries(
    Object.entries(both).flatMap(([side, numbers]) =>
      Object.entries(numbers)
        .filter(([name]) => name !== 'accepted')
        .map(([name, value]) => [`${side}.${name}`, name.endsWith('Ms') ? time(value) : amount(value)]),
    ),
  );
}

/** The pictures of both boards count what the page does. */
async function expectPictures(page: Page, name: PresetName, counts: Record<string, Counts>): Promise<void> {
  for (const side of ['plain', 'sluice'] as const) {
    const told = counts[side] as Counts;
    const { accepted, fulfilled, lost, calls, throttled, tokens } = await page.$eval(
      `.board.${side} sluice-inspector`,
      (element) => (element as unknown as SluiceInspector).model.counters,
    );
    expect({ calls, throttled, tokens, lost }, `${name} ${side}`).toEqual({
      calls: told.calls,
      throttled: told.throttled,
      tokens: told.tokens,
      lost: told.lost,
    });
    // A turn is several calls, each of which is an item of its own to the model and the tools.
    if (name !== 'agent-turn') expect([accepted, fulfilled], `${name} ${side}`).toEqual([told.accepted, told.answered]);
  }
}

/** What has the focus, inside of pictures as well: its name. */
function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    let element = document.activeElement;
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    const labels = (element as HTMLInputElement | null)?.labels ?? [];
    return [...labels].map((label) => label.textContent).join(' ') || (element?.getAttribute('aria-label') ?? element?.textContent ?? '');
  });
}

/** Presses Tab until something with that name has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 150; presses++) {
    await page.keyboard.press('Tab');
    if ((await focused(page)) === name) return;
  }
  throw new Error(`nothing named ${name} is reached by Tab`);
}

describe('the playground', () => {
  it('loads, plays, steps and changes its stories, and counts the same in its pictures as above them', async () => {
    const { page, errors, requests } = await open();
    for (const name of NAMES) {
      await page.click(`[data-preset="${name}"]`);
      await page.waitForSelector(`html[data-ready="${name}"]`);
      await until(`${name} plays`, async () => (await nowMs(page)) > 100);
      await button(page, 'Pause').click();
      const pausedAt = await nowMs(page);
      await button(page, 'Step').click();
      // To a hundredth of a second; a step may be shorter.
      expect(await nowMs(page), name).toBeGreaterThanOrEqual(pausedAt);
      await page.fill('#set-seconds', '4');
      await page.press('#set-seconds', 'Enter');
      expect(await nowMs(page), name).toBeLessThan(pausedAt);
      await button(page, 'To the end').click();
      const counts = await counted(name, { seconds: 4 }, 1e9);
      expect(await shown(page), name).toEqual(written(counts));
      await expectPictures(page, name, counts);
      await until('the address says what and where', () => page.evaluate(() => /seconds=4&.*atMs=/.test(location.hash)));
    }
    expect(errors).toEqual([]);
    expect(requests.filter((url) => !url.startsWith(site.url) && url !== 'about:blank')).toEqual([]);
  });

  it('counts the same in each picture as above it, in the middle of a run', async () => {
    const { page, errors } = await open();
    for (const name of NAMES) {
      await go(page, name, '&atMs=2345');
      const counts = await counted(name, {}, 2345);
      await until('it is there', async () => (await shown(page))['plain.calls'] === amount((counts['plain'] as Counts).calls));
      await expectPictures(page, name, counts);
    }
    expect(errors).toEqual([]);
  });

  it.each(NAMES)('goes on while everything that can be set is set, to its least and its most: %s', async (name) => {
    const { page, errors } = await open(`#preset=${name}&speed=20`);
    await until('it plays', async () => (await nowMs(page)) > 0);
    const count = await page.$$eval('.controls input[type="number"]', async (all) => {
      const fields = (all as HTMLInputElement[]).filter((one) => one.checkVisibility());
      for (const field of fields) {
        for (const value of [field.min, '1e999', field.max]) {
          field.value = value;
          field.dispatchEvent(new Event('change'));
          await new Promise(requestAnimationFrame);
        }
      }
      return fields.length;
    });
    expect(count).toBeGreaterThan(5);
    for (const label of ['weighted', 'roundRobin']) {
      const choice = page.locator('.controls select');
      if (await choice.isVisible()) await choice.selectOption(label);
    }
    const from = await nowMs(page);
    await until('it goes on', async () => (await nowMs(page)) > from, 30_000);
    // All of it stands in the address, and is read again.
    await until('the address says it', () => page.evaluate(() => location.hash.includes('seconds=600')));
    await page.reload();
    await page.waitForSelector(`html[data-ready="${name}"]`);
    expect(await page.getByRole('alert').isVisible()).toBe(false);
    expect(errors).toEqual([]);
  });

  it('a link shows the same numbers on both boards when it is opened', async () => {
    const { page, errors } = await open('#preset=storm-of-429s&p1=40&fairness=weighted&seed=99&speed=20');
    await until('it plays', async () => (await nowMs(page)) > 2500);
    await button(page, 'Pause').click();
    await button(page, 'Step').click();
    await button(page, 'Copy link').click();
    await until('it is copied', async () => (await page.innerText('[role="status"]')).includes('copied'));
    const link = await page.evaluate(() => navigator.clipboard.readText());
    const [at, numbers] = [await nowMs(page), await shown(page)];
    await load(shared, new URL(link).hash);
    expect(await nowMs(page)).toBe(at);
    expect(await shown(page)).toEqual(numbers);
    const atMs = Number(new URLSearchParams(new URL(link).hash.slice(1)).get('atMs'));
    expect(atMs).toBeGreaterThan(2500);
    expect(numbers).toEqual(written(await counted('storm-of-429s', { p1: 40, fairness: 'weighted', seed: 99 }, atMs)));
    expect(errors).toEqual([]);
  });

  it('an address that cannot be says what is wrong, and shows the rest', async () => {
    const { page, errors } = await open('#preset=smart-batcher&p0=-4&maxSize=7&wat=1');
    const alert = page.getByRole('alert');
    expect(await alert.innerText()).toContain('p0 is a number from 0 to 500 items/s, not “-4”');
    expect(await alert.innerText()).toContain('wat is nothing that can be set');
    expect(await page.inputValue('#set-maxSize')).toBe('7');
    expect(await page.inputValue('#set-p0')).toBe(String((await loadPreset['smart-batcher']()).scenario.p0));
    await page.fill('#set-p0', '1000');
    await page.press('#set-p0', 'Tab');
    expect(await page.innerText('#set-p0-wrong')).toContain('from 0 to 500');
    expect(errors).toEqual([]);
  });

  it('gives its pipeline away as the code that runs in Node', async () => {
    const { page, errors } = await open('#preset=agent-turn&failures=10');
    await button(page, 'Copy as code').click();
    await until('it is copied', async () => (await page.innerText('dialog')).includes('copied'));
    const preset = await loadPreset['agent-turn']();
    const code = await copiedCode(PRESETS['agent-turn'], { ...preset.scenario, failures: 10 }, preset.pipeline);
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(code);
    expect(await page.locator('dialog code').textContent()).toBe(code);
    await page.keyboard.press('Escape');
    await until('the dialog is gone', async () => (await page.locator('dialog').count()) === 0);
    expect(errors).toEqual([]);
  });

  it('opens a split, and says of it what the events say', async () => {
    const { page, errors } = await open('#preset=one-bad-prompt');
    await button(page, 'To the end').click();
    const split = page.locator('.board.sluice [data-tree]').first();
    // A picture is drawn when it is to be seen.
    await page.locator('.board.sluice').scrollIntoViewIfNeeded();
    await split.focus();
    expect(await page.locator('.board.sluice .limits circle').count()).toBe(0);
    await page.keyboard.press('Enter');
    await until('the tree is drawn', async () => (await page.locator('.board.sluice .limits circle').count()) > 1);
    expect(errors).toEqual([]);
  });

  it.each(['plain', 'sluice'])('exports what happened on the %s board, and opens it again with the same counts', async (side) => {
    const { page, errors } = await open('#preset=one-bad-prompt&seconds=3');
    await button(page, 'To the end').click();
    const counters = (selector: string): Promise<object> =>
      page.$eval(selector, (element) => {
        // How many would fill a batch is not part of a recording.
        const { meanFill: _meanFill, ...counters } = (element as unknown as SluiceInspector).model.counters;
        return counters;
      });
    const [saved] = await Promise.all([page.waitForEvent('download'), page.click(`.board.${side} [data-export]`)]);
    const file = await saved.path();
    expect(importRecording(await readFile(file, 'utf8')).events.length).toBeGreaterThan(100);
    await page.setInputFiles('input[type="file"]', { name: 'mine.json', mimeType: 'application/json', buffer: await readFile(file) });
    const opened = page.locator('.board', { hasText: 'Recording: mine.json' });
    await opened.waitFor();
    await opened.locator('input[type=range]').press('End');
    expect(await counters('.board.opened sluice-inspector')).toEqual(await counters(`.board.${side} sluice-inspector`));
    await page.setInputFiles('input[type="file"]', { name: 'no.json', mimeType: 'application/json', buffer: Buffer.from('{"a": 1}') });
    expect(await page.getByRole('alert').innerText()).toContain('no.json is no recording');
    await button(page, 'Close the recording').click();
    expect(await opened.count()).toBe(0);
    expect(errors).toEqual([]);
  });

  it('has nothing that axe-core complains of, in light and in dark', async () => {
    const { page } = await open('#preset=one-bad-prompt&atMs=4000');
    await page.setViewportSize({ width: 1280, height: 3000 });
    await page.waitForSelector('.board.sluice [data-tree]');
    for (const summary of await page.$$('summary'))
      await summary.evaluate((element) => ((element.parentElement as HTMLDetailsElement).open = true));
    const inBoth = async (within: string): Promise<void> => {
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await axeFaults(page, { within, onlyColours: colorScheme === 'dark' }), colorScheme).toEqual([]);
      }
    };
    await inBoth('html');
    await button(page, 'Copy as code').click();
    await page.waitForSelector('dialog');
    await inBoth('dialog');
  });

  it('goes by the keyboard alone', async () => {
    const { page, errors } = await open('#preset=agent-turn&atMs=100');
    await tabTo(page, 'One bad prompt');
    await page.keyboard.press('Enter');
    await page.waitForSelector('html[data-ready="one-bad-prompt"]');
    await tabTo(page, 'Pause');
    await page.keyboard.press('Space');
    await until('it stands still', () => page.evaluate(() => location.hash.includes('atMs=')));
    await tabTo(page, 'Step');
    await page.keyboard.press('Enter');
    await tabTo(page, 'To the end');
    await page.keyboard.press('Enter');
    expect(await page.innerText('.clock')).toMatch(/^2\d\.\d\d s of 20 s$/);
    await tabTo(page, 'Copy as code');
    await page.keyboard.press('Enter');
    await page.waitForSelector('dialog');
    await page.keyboard.press('Escape');
    await until('the focus is back', async () => (await focused(page)).includes('Copy as code'));
    await tabTo(page, 'user · prompts');
    await page.keyboard.press('Control+A');
    await page.keyboard.type('55');
    await page.keyboard.press('Enter');
    await until('the address says it', () => page.evaluate(() => location.hash.includes('p0=55')));
    expect(errors).toEqual([]);
  });

  it('stands still from the beginning for users who prefer reduced motion', async () => {
    await shared.page.emulateMedia({ reducedMotion: 'reduce' });
    await load(shared, '');
    const { page } = shared;
    expect(await nowMs(page)).toBe(0);
    expect(await button(page, 'Play').count()).toBe(1);
  });

  it('fits on a page, in light and in dark, and on a phone', async () => {
    const { page } = await open('#speed=20');
    for (const [name, size, stories] of [
      ['light', { width: 1280, height: 900 }, NAMES],
      ['dark', { width: 1280, height: 900 }, NAMES.slice(0, 2)],
      ['phone', { width: 390, height: 844 }, NAMES.slice(0, 2)],
    ] as const) {
      await page.emulateMedia({ colorScheme: name === 'dark' ? 'dark' : 'light' });
      for (const preset of stories) {
        await page.setViewportSize(size);
        await go(page, preset, '&atMs=5000');
        expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
        // All of it is drawn.
        await page.setViewportSize({ ...size, height: await page.evaluate(() => document.documentElement.scrollHeight) });
        await page.screenshot({ path: join(PICTURES, `${preset}-${name}.png`) });
      }
    }
  });

  it('`npm run playground` serves it', async () => {
    const [url = ''] = /http:\/\/127\.0\.0\.1:\d+\//.exec(await printed) ?? [];
    const { page, context } = await web.visit(url);
    onTestFinished(() => context.close());
    await page.waitForSelector('html[data-ready="smart-batcher"]');
    expect(await page.title()).toBe('Sluice playground');
  });

  it('is small: before the first story, and in all', async () => {
    const sizes = new Map<string, number>();
    for (const name of await readdir(folder, { recursive: true })) {
      if (!/\.\w+$/.test(name)) continue;
      sizes.set(name, gzipSync(await readFile(join(folder, name)), { level: 9 }).length);
    }
    const first = [...sizes].filter(([name]) => /^index\.html$|^assets\/index-/.test(name));
    expect(first.length).toBe(3);
    const sum = (of: readonly (readonly [string, number])[]): number => of.reduce((all, [, size]) => all + size, 0);
    expect(sum(first)).toBeLessThan(60_000);
    expect(sum([...sizes])).toBeLessThan(98_000);
  });
});
