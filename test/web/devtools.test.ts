import { afterAll, beforeAll, expect, it } from 'vitest';
import type { SluiceInspector } from '../../src/inspector/index.js';
import { countersOf, recordedRun, rounded } from '../support/recorded-run.js';
import type {} from './pages/devtools.js';
import { startWeb, until, type Web } from './support/browser.js';

let web: Web;
const EVENTS = recordedRun({ items: 90, throttledEvery: 6, poisoned: [13] });

beforeAll(async () => {
  web = await startWeb();
});
afterAll(() => web.close());

it.each(['before', 'after'] as const)(
  'the panel of the documentation shows what a pipeline does, when it is opened %s it',
  async (when) => {
    const { page, errors } = await web.open('devtools.ts', {}, { mode: 'development' });
    if (when === 'before')
      await page.evaluate(() => {
        globalThis.devtools.openPanel();
      });
    await page.evaluate(
      (events) => {
        globalThis.devtools.start();
        globalThis.devtools.tell(events);
      },
      EVENTS.slice(0, 100),
    );
    if (when === 'after')
      await page.evaluate(() => {
        globalThis.devtools.openPanel();
      });
    await page.evaluate((events) => {
      globalThis.devtools.tell(events);
    }, EVENTS.slice(100));
    const wanted = JSON.stringify(countersOf(EVENTS));
    await until('the panel counts as the pipeline does', async () => {
      const counters = await page.evaluate(() => document.querySelector<SluiceInspector>('sluice-inspector')?.model.counters);
      return counters !== undefined && JSON.stringify(rounded(counters)) === wanted;
    });
    expect(errors).toEqual([]);
  },
);

it('does nothing in a page for production', async () => {
  const { page, errors } = await web.open('devtools.ts', {}, { mode: 'production' });
  const seen = await page.evaluate((events) => {
    const leave = globalThis.devtools.start();
    globalThis.devtools.tell(events);
    leave();
    return { seen: globalThis.devtools.seen.length, isObserved: globalThis.devtools.isObserved() };
  }, EVENTS);
  expect(seen).toEqual({ seen: 0, isObserved: false });
  expect(errors).toEqual([]);
});
