import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { importRecording } from '../../src/inspector/index.js';
import { replay } from '../../src/inspector/recording.js';
import { sized } from '../support/deep.js';
import { rounded } from '../support/recorded-run.js';
import type {} from './pages/inspector.js';
import { axeFaults } from './support/axe.js';
import type { Web, WebPage } from './support/browser.js';
import { startWeb, until } from './support/browser.js';
import { framesAsked } from './support/frames.js';

const SECRET = 'sk-planted-in-the-payload';
/** For people to look at; CI keeps it. */
const PICTURES = resolve(import.meta.dirname, '../../.screenshots');

const LOOKS = [
  ['light', 1280],
  ['dark', 1280],
  ['phone', 390],
] as const;

let web: Web;
let shared: WebPage;
beforeAll(async () => {
  web = await startWeb();
  shared = await web.visit('about:blank');
}, 60_000);
afterAll(() => web.close());

/** The page in the tab of all, loaded anew: of a test before, nothing is left. */
async function open(query: Readonly<Record<string, string | number>> = {}): Promise<WebPage> {
  const { page } = shared;
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  await page.setViewportSize({ width: 1280, height: 720 });
  await web.show(shared, 'inspector.ts', query);
  await until('something has happened', () => page.evaluate(() => globalThis.demo.inspectors.every(({ model }) => model.version > 0)));
  return shared;
}

/** What a fact says: the one with this label. */
const fact = ({ page }: WebPage, label: string, board = 0): Promise<string | null> =>
  page
    .locator('sluice-inspector')
    .nth(board)
    .locator('dl div', { has: page.locator('dt', { hasText: new RegExp(`^${label}$`) }) })
    .locator('dd')
    .textContent();

/** How much of the picture is painted. */
const painted = ({ page }: WebPage, board = 0): Promise<number> =>
  page.evaluate((at) => {
    const canvas = globalThis.demo.inspectors[at]?.shadowRoot?.querySelector('canvas');
    const data = canvas?.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
    let count = 0;
    for (let i = 3; i < data.length; i += 4) if (data[i] !== 0) count++;
    return count;
  }, board);

it('draws, writes the numbers of the pipeline, and shows nothing of what its items are', async () => {
  const opened = await open({ told: 1 });
  const { page } = opened;
  await until('calls have ended', () => page.evaluate(() => (globalThis.demo.inspectors[0]?.model.counters.settled ?? 0) > 20));
  expect(await painted(opened)).toBeGreaterThan(500);
  await page.evaluate(() => {
    globalThis.demo.stop();
  });
  await until('the numbers are written', async () => (await fact(opened, 'executing')) === '0');
  const [counters, told] = await page.evaluate(() => {
    const { model } = globalThis.demo.inspectors[0]!;
    const count = (type: string): number => globalThis.demo.told.filter((event) => event.type === type).length;
    return [model.counters, { calls: count('attemptStarted'), settled: count('settled'), accepted: count('accepted') }] as const;
  });
  expect(counters).toMatchObject({ ...told, waiting: 0, executing: 0, lost: 0, cancelled: told.accepted - told.settled });
  expect(await fact(opened, 'calls')).toBe(String(counters.calls));
  expect(await fact(opened, 'lost')).toBe('0');
  const [written, exported] = await page.evaluate(() => {
    const element = globalThis.demo.inspectors[0]!;
    return [element.shadowRoot?.textContent ?? '', element.export()];
  });
  expect(written).not.toContain(SECRET);
  expect(exported).not.toContain(SECRET);
  expect(opened.errors).toEqual([]);
});

it('exports what is opened and played again, there and in Node, with the same numbers', async () => {
  const opened = await open();
  const { page } = opened;
  await until('a few calls are made', () => page.evaluate(() => globalThis.demo.inspectors[0]!.model.counters.calls >= 8));
  await page.evaluate(() => {
    globalThis.demo.stop();
  });
  const [exported, before] = await page.evaluate(() => {
    const element = globalThis.demo.inspectors[0]!;
    return [element.export(), element.model.counters];
  });
  // The last digit of a power is that of the engine.
  expect(rounded(replay(importRecording(exported)).counters)).toEqual(rounded(before));
  const [again, steps, isPaused, calls] = await page.evaluate((text) => {
    const element = globalThis.demo.inspectors[0]!;
    const player = globalThis.demo.play(text);
    player.seek(Infinity);
    const { counters } = element.model;
    player.seek(0);
    let count = 0;
    while (player.step()) count++;
    return [counters, count, element.paused, element.model.counters.calls] as const;
  }, exported);
  expect(again).toEqual(before);
  expect([isPaused, calls]).toEqual([true, again.calls]);
  expect(steps).toBeGreaterThan(5);
  await page.locator('input[type=range]').press('Home');
  await until('it is back at its beginning', async () => Number(await fact(opened, 'calls')) < calls);
  expect(await page.locator('.recording span').textContent()).toMatch(/^0 ms of /);
  await page.evaluate(() => {
    globalThis.demo.inspectors[0]!.resume();
  });
  await until('it plays', async () => Number(await fact(opened, 'calls')) === calls, 60_000);
  const saved = page.waitForEvent('download');
  await page.locator('[data-export]').click();
  expect(JSON.parse(await text(await (await saved).createReadStream()))).toMatchObject({ format: 'sluice-recording', version: 2 });
  expect(opened.errors).toEqual([]);
});

it('pauses without losing anything, several side by side each by itself, with the keyboard alone', async () => {
  const opened = await open({ boards: 2 });
  const { page } = opened;
  const pause = page.locator('sluice-inspector').first().locator('[data-pause]');
  await pause.focus();
  await page.keyboard.press('Enter');
  await until('it says so', async () => (await pause.textContent()) === 'Resume');
  const [stands, other] = [await fact(opened, 'calls'), Number(await fact(opened, 'calls', 1))];
  await until('the other goes on', async () => Number(await fact(opened, 'calls', 1)) > other + 5);
  expect(await fact(opened, 'calls')).toBe(stands);
  await page.keyboard.press('Enter');
  await until('it has caught up', async () => Number(await fact(opened, 'calls')) > Number(stands) + 4);
  await page.keyboard.press('Tab');
  expect(await page.locator('[data-export]:focus').count()).toBe(1);
  await page.locator('[data-table]').first().focus();
  await page.keyboard.press('Enter');
  await until('the table is there', () => page.locator('caption', { hasText: 'Lanes' }).first().isVisible());
  const tree = page.locator('[data-tree]').first();
  await tree.waitFor();
  await tree.focus();
  await page.keyboard.press('Space');
  await until('the tree is open', async () => (await page.locator('details svg circle').count()) > 1);
  expect(opened.errors).toEqual([]);
});

it('leaves its source when it is taken off the page, and comes back', async () => {
  const { page } = await open();
  const seen = await page.evaluate(async () => {
    const element = globalThis.demo.inspectors[0]!;
    const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    const { parentElement: root } = element;
    const { model } = element;
    // Only moved: it goes on.
    root?.append(element);
    await wait(200);
    const isSame = element.model === model;
    element.remove();
    await wait(50);
    const { version } = model;
    await wait(300);
    const isLeft = model.version === version;
    root?.append(element);
    await wait(300);
    return [isSame, isLeft, element.model === model, element.model.version > 0];
  });
  expect(seen).toEqual([true, true, false, true]);
});

it('requests no frame while nothing changes, nor while it is out of sight', async () => {
  const opened = await open();
  const { page } = opened;
  await until('it draws', async () => (await framesAsked(opened, 400)) > 10);
  await page.evaluate(() => {
    globalThis.demo.inspectors[0]!.style.marginTop = '5000px';
  });
  await until('it is out of sight', async () => (await framesAsked(opened, 200)) === 0);
  await page.evaluate(() => {
    globalThis.demo.inspectors[0]!.style.marginTop = '0';
    globalThis.demo.stop();
  });
  await until('all stand', async () => (await framesAsked(opened, 300)) <= 3, 20_000);
});

it('shows no motion to users who prefer reduced motion', async () => {
  const opened = await open();
  await opened.page.emulateMedia({ reducedMotion: 'reduce' });
  await until('something is to be seen', async () => (await painted(opened)) > 200);
  // Where something is, changes with events alone.
  await opened.page.evaluate(() => {
    globalThis.demo.stop();
  });
  await until('nothing is drawn any more', async () => (await framesAsked(opened, 300)) <= 3, 5000);
  expect(opened.errors).toEqual([]);
});

it('stands whatever is told and asked of it, and says so where it cannot', async () => {
  const opened = await open();
  const { page } = opened;
  await page.evaluate(async () => {
    const element = globalThis.demo.inspectors[0]!;
    const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    globalThis.demo.stop();
    let tell = (_event: object): void => undefined;
    element.source = {
      subscribe: ({ next }: { next: (event: never) => void }) => {
        tell = next as (event: object) => void;
        return { unsubscribe: () => undefined };
      },
    };
    const item = { operator: 'batchMap', lane: 'user', instance: 'a', seq: 0 };
    const call = { ...item, batchId: 'b', size: 1e9, weight: 1e308, attempt: 1, splitDepth: 0 };
    for (let i = 0; i < 60; i++) tell({ ...item, type: 'accepted', lane: `${'name'.repeat(50)}${String(i)}`, seq: i + 1, queued: 0 });
    tell({ ...item, type: 'accepted', queued: 1e300 });
    for (let attempt = 1; attempt < 5000; attempt++) {
      tell({ ...call, type: 'attemptStarted', attempt, executing: 1 });
      tell({ ...call, type: 'attemptEnded', attempt, outcome: 'transient', latencyMs: -5 });
    }
    tell({ ...call, type: 'split', parts: 1e12, depth: 1 });
    tell({ ...item, type: 'cancelled', count: -3, seq: undefined });
    tell({ ...item, type: 'throttled', pauseMs: Infinity });
    await wait(300);
    element.shadowRoot?.querySelector<HTMLElement>('[data-tree]')?.click();
    element.shadowRoot?.querySelector<HTMLElement>('[data-table]')?.click();
    await wait(300);
  });
  await until('the tree is drawn', async () => (await page.locator('details svg circle').count()) > 20);
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  const played = await page.evaluate(async () => {
    const element = globalThis.demo.inspectors[0]!;
    const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    const root = element.parentElement;
    const player = globalThis.demo.play(element.export());
    player.seek(Number.NaN);
    player.speed = Number.NaN;
    await wait(100);
    player.speed = -1;
    await wait(100);
    // Taken away while it plays.
    player.speed = 1000;
    element.remove();
    player.seek(3);
    player.step();
    await wait(100);
    root?.append(element);
    element.resume();
    await wait(300);
    const { accepted } = element.model.counters;
    element.source = null as never;
    await wait(200);
    return [accepted, element.model.counters.accepted, element.shadowRoot?.querySelector('header p')?.textContent];
  });
  expect(played).toEqual([61, 0, 'no source yet']);
  expect(opened.errors).toEqual([]);
});

it('cuts off no number at any width', async () => {
  const opened = await open({ boards: 1 });
  const { page } = opened;
  await page.evaluate(() => {
    globalThis.demo.stop();
    const [element] = globalThis.demo.inspectors;
    Object.assign(element!.model.sums, {
      accepted: 7_654_321,
      sent: 9_654_321,
      calls: 7_654_321,
      waiting: 7_654_321,
      throttled: 7_654_321,
    });
    element!.heading = 'Numbers';
  });
  for (const width of [320, 390, 560, 1200]) {
    await page.setViewportSize({ width, height: 900 });
    await page.waitForTimeout(150);
    const cut = await page.evaluate(() => {
      const root = globalThis.demo.inspectors[0]!.shadowRoot!;
      const cells = [...root.querySelectorAll('dd, dt, h3, .row, header *')].filter(
        (cell) => cell.scrollWidth > cell.clientWidth + 1 && cell.clientWidth > 0,
      );
      return [cells.map((cell) => cell.textContent), document.documentElement.scrollWidth <= innerWidth];
    });
    expect([width, ...cut]).toEqual([width, [], true]);
  }
});

it('has nothing that axe finds serious, light, dark and on a phone, with everything open', async () => {
  const { page } = await open({ boards: 2 });
  await page.locator('[data-table]').first().click();
  await page.locator('[data-tree]').first().click();
  // As it is to be looked at: the picture stands.
  await page.evaluate(() => {
    for (const inspector of globalThis.demo.inspectors) inspector.pause();
  });
  for (const [name, width] of LOOKS.slice(0, sized(1, LOOKS.length))) {
    await page.emulateMedia({ colorScheme: name === 'dark' ? 'dark' : 'light' });
    await page.evaluate((colour) => (document.body.style.background = colour), name === 'dark' ? '#0d0f14' : '');
    await page.setViewportSize({ width, height: 900 });
    expect(await page.locator('section').evaluateAll((all) => all.map((one) => one.scrollWidth - one.clientWidth))).toEqual([0, 0]);
    await page.screenshot({ path: join(PICTURES, `inspector-${name}.png`), fullPage: true });
    expect(await axeFaults(page, { onlySerious: true, onlyColours: name === 'dark' }), name).toEqual([]);
  }
});
