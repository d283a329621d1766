import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type {} from '../pages/inspector.js';
import type { Web } from '../support/browser.js';
import { startWeb, until } from '../support/browser.js';
import { framesAsked } from '../support/frames.js';
import type { Heap } from '../support/heap.js';
import { heapOf } from '../support/heap.js';

const SECONDS = 60;

let web: Web;
beforeAll(async () => {
  web = await startWeb();
}, 60_000);
afterAll(() => web.close());

it(
  `${String(SECONDS)} s at 500 items a second: frames keep coming, and the heap stays`,
  async () => {
    const blank = await web.visit('about:blank');
    const empty = await blank.page.evaluate(async () => {
      let count = 0;
      const tick = (): void => {
        count++;
        requestAnimationFrame(tick);
      };
      tick();
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return count;
    });
    await blank.context.close();
    const opened = await web.open('inspector.ts', { rate: 500 });
    onTestFinished(() => opened.context.close());
    const { page, devtools } = opened;
    // With nothing on its way: what waits is the pipeline's own.
    const heap = async (): Promise<Heap> => {
      const feed = (isFed: boolean): Promise<void> =>
        page.evaluate((is) => {
          globalThis.demo.isFed = is;
        }, isFed);
      const isOpen = (): Promise<boolean> =>
        page.evaluate(() => {
          const { waiting, executing } = globalThis.demo.inspectors[0]!.model.counters;
          return waiting + executing > 0;
        });
      await feed(false);
      await until('all is done', async () => !(await isOpen()), 20_000);
      // The last of it fades.
      await page.waitForTimeout(1500);
      const found = await heapOf(devtools);
      await feed(true);
      return found;
    };
    // Waits until every bound is reached (the last 2,000 events, the last 120 samples) and nearly everything is compiled. From then on the whole heap
    // grows by 7 % in 60 s and by 10 % in 240 s. What the page itself holds grows by 3 %, once, for the last samples.
    const warm = 30_000;
    await until(
      'it is warm',
      () => page.evaluate((items) => globalThis.demo.inspectors[0]!.model.counters.accepted > items, warm),
      200_000,
    );
    const before = await heap();
    const counted: number[] = [];
    for (let i = 0; i < SECONDS; i++) counted.push(await framesAsked(opened, 1000));
    const after = await heap();
    const { accepted, lost } = await page.evaluate(() => globalThis.demo.inspectors[0]!.model.counters);
    // What else runs on the machine may stop everything for a moment.
    const [perSecond] = counted.sort((one, other) => one - other).slice(SECONDS / 2);
    console.log(
      `soak: ${String(perSecond)} frames a second (an empty page: ${String(empty)}), ${String(accepted)} items, heap`,
      before,
      after,
    );
    expect(accepted).toBeGreaterThan(SECONDS * 400);
    expect(lost).toBe(0);
    expect(after.own).toBeLessThanOrEqual(before.own * 1.05);
    expect(after.all).toBeLessThanOrEqual(before.all * 1.05);
    expect(perSecond).toBeGreaterThanOrEqual(Math.min(50, 0.8 * empty));
  },
  SECONDS * 1000 + 300_000,
);
