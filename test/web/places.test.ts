import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FlowCounters } from '../../src/inspector/counters.js';
import type { SluiceInspector } from '../../src/inspector/index.js';
import { countersOf, recordedRun, rounded } from '../support/recorded-run.js';
import type {} from './pages/places.js';
import { startWeb, until, type Web, type WebPage } from './support/browser.js';

let web: Web;
const EVENTS = recordedRun({ items: 60, throttledEvery: 6, poisoned: [13] });

beforeAll(async () => {
  web = await startWeb();
});
afterAll(() => web.close());

/** One tab for all, which shows a new document for each of them: a page that is left behind goes on drawing. */
let tab: WebPage | undefined;
async function open(): Promise<WebPage> {
  if (tab) await web.show(tab, 'places.tsx');
  tab ??= await web.open('places.tsx');
  return tab;
}

/** The counters of every inspector on the page, in its order. */
const counters = async ({ page }: WebPage): Promise<FlowCounters[]> => {
  const seen = await page.evaluate(() =>
    [...document.querySelectorAll<SluiceInspector>('sluice-inspector')].map(({ model }) => model.counters),
  );
  return seen.map(rounded);
};

/** All that inspectors have written, once they have drawn. */
const text = ({ page }: WebPage): Promise<string> =>
  page.evaluate(async () => {
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 300)));
    return [...document.querySelectorAll('sluice-inspector')].map((element) => element.shadowRoot?.textContent ?? '').join('\n');
  });

describe('an inspector', () => {
  it('takes the source that it was given before it was defined', async () => {
    const opened = await open();
    await opened.page.evaluate((events) => {
      const source = places.source();
      places.add(source);
      places.define();
      places.tell(source, events);
    }, EVENTS);
    expect(await counters(opened)).toEqual([countersOf(EVENTS)]);
    expect(opened.errors).toEqual([]);
  });

  it('is defined twice without harm, and stands twice in a page, each with its own source', async () => {
    const opened = await open();
    await opened.page.evaluate((events) => {
      places.define();
      places.define();
      const [one, two] = [places.source(), places.source()];
      places.add(one);
      places.add(two);
      places.tell(one, events);
      places.tell(two, events.slice(0, 30));
    }, EVENTS);
    expect(await counters(opened)).toEqual([countersOf(EVENTS), countersOf(EVENTS.slice(0, 30))]);
  });

  it('leaves its source when it is taken off the page, and listens again when it is put back', async () => {
    const opened = await open();
    const observed = await opened.page.evaluate(async (events) => {
      places.define();
      const source = places.source();
      const element = places.add(source);
      const seen = [source.observed];
      places.tell(source, events.slice(0, 20));
      element.remove();
      await new Promise((resolve) => setTimeout(resolve, 50));
      seen.push(source.observed);
      document.body.append(element);
      seen.push(source.observed);
      places.tell(source, events.slice(20));
      // Moved, as a list does that is sorted anew.
      document.body.prepend(element);
      return [...seen, source.observed];
    }, EVENTS);
    expect(observed).toEqual([true, false, true, true]);
    const [seen] = await counters(opened);
    expect(seen!.settled).toBe(60);
    expect(opened.errors).toEqual([]);
  });

  it('is a component of React, in strict mode, and leaves its source when it is unmounted', async () => {
    const opened = await open();
    await opened.page.evaluate(() => {
      places.define();
      const sources = [places.source(), places.source()];
      Object.assign(globalThis, { sources, unmount: places.react(...sources) });
    });
    await until('React has rendered', async () => (await counters(opened)).length === 2);
    const observed = await opened.page.evaluate(async (events) => {
      const { sources, unmount } = globalThis as unknown as { sources: ReturnType<typeof places.source>[]; unmount: () => void };
      await new Promise((resolve) => setTimeout(resolve, 50));
      for (const source of sources) places.tell(source, events);
      const all = [...document.querySelectorAll<SluiceInspector>('sluice-inspector')].map(({ model }) => model.counters.settled);
      unmount();
      await new Promise((resolve) => setTimeout(resolve, 50));
      return [all, sources.map((source) => source.observed)];
    }, EVENTS);
    expect(observed).toEqual([
      [60, 60],
      [false, false],
    ]);
    expect(opened.errors).toEqual([]);
  });

  it('keeps what it shows when its source ends with an error, and takes another one', async () => {
    const opened = await open();
    await opened.page.evaluate((events) => {
      places.define();
      const source = places.source();
      const element = places.add(source);
      places.tell(source, events);
      source.error(new Error('gone'));
      Object.assign(globalThis, { element });
    }, EVENTS);
    expect(await counters(opened)).toEqual([countersOf(EVENTS)]);
    await opened.page.evaluate(
      (events) => {
        const source = places.source();
        (globalThis as unknown as { element: SluiceInspector }).element.source = source;
        places.tell(source, events);
      },
      EVENTS.slice(0, 10),
    );
    expect(await counters(opened)).toEqual([countersOf(EVENTS.slice(0, 10))]);
    expect(opened.errors).toEqual([]);
  });

  it('shows a source that never says anything, and nothing that is no event', async () => {
    const opened = await open();
    await opened.page.evaluate(() => {
      places.define();
      const source = places.source();
      places.add(source);
      places.tell(source, [null, undefined, 7, 'accepted', {}, { type: 'accepted' }, [], { type: '__proto__', operator: 'x' }]);
    });
    expect(await counters(opened)).toEqual([countersOf([])]);
    expect(await text(opened)).not.toMatch(/NaN|undefined|Infinity|\[object/);
    expect(opened.errors).toEqual([]);
  });

  it('takes a hundred thousand events at once', async () => {
    const opened = await open();
    const tookMs = await opened.page.evaluate((events) => {
      places.define();
      const source = places.source();
      places.add(source);
      const start = performance.now();
      for (let i = 0; i * events.length < 100_000; i++)
        places.tell(
          source,
          events.map((event) => ({ ...event, instance: `run ${String(i)}` })),
        );
      return performance.now() - start;
    }, EVENTS);
    const [seen] = await counters(opened);
    expect(seen!.lost).toBe(0);
    expect(seen!.settled).toBe(60 * Math.ceil(100_000 / EVENTS.length));
    expect(tookMs).toBeLessThan(10_000);
    expect(await text(opened)).toContain(seen!.calls.toLocaleString('en'));
    expect(opened.errors).toEqual([]);
  });

  it('keeps its place in the page with lanes of any name, and does nothing that one says', async () => {
    const names = [
      'n'.repeat(10_000),
      '\u05E9\u05DC\u05D5\u05DD',
      '\u202Etxt.exe',
      '<img src=x onerror="globalThis.hacked = 1">',
      '__proto__',
      'normal',
    ];
    const events = recordedRun({ items: 60, throttledEvery: 4, lanes: names });
    const opened = await open();
    await opened.page.evaluate((told) => {
      places.define();
      const source = places.source();
      places.add(source);
      places.tell(source, told);
    }, events);
    expect(await counters(opened)).toEqual([countersOf(events)]);
    const written = await text(opened);
    for (const name of names.slice(1)) expect(written).toContain(name);
    const page = await opened.page.evaluate(() => ({
      isWider: document.documentElement.scrollWidth > innerWidth,
      isHacked: 'hacked' in globalThis,
      height: document.documentElement.scrollHeight,
    }));
    expect(page).toMatchObject({ isWider: false, isHacked: false });
    expect(page.height).toBeLessThan(3000);
    expect(opened.errors).toEqual([]);
  });

  it('counts everything whatever the clock does', async () => {
    const clocks: Readonly<Record<string, (i: number) => number | undefined>> = {
      'goes backwards': (i) => 1e6 - i,
      'jumps ahead by a year and back': (i) => (i % 2 === 0 ? i : 3e10),
      'stands still': () => 5,
      'is not there': () => undefined,
    };
    const opened = await open();
    await opened.page.evaluate(() => {
      places.define();
    });
    for (const at of Object.values(clocks)) {
      await opened.page.evaluate(
        (told) => {
          const source = places.source();
          places.add(source);
          places.tell(source, told);
        },
        EVENTS.map((event, i) => ({ ...event, at: at(i) })),
      );
    }
    const { accepted, settled, calls, lost } = countersOf(EVENTS);
    const seen = await counters(opened);
    for (const [i, clock] of Object.keys(clocks).entries()) expect(seen[i], clock).toMatchObject({ accepted, settled, calls, lost });
    expect(await text(opened)).not.toMatch(/NaN|Infinity/);
    expect(opened.errors).toEqual([]);
  });
});
