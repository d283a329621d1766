import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {} from './pages/counter.js';
import type { HooksPage } from './pages/hooks.js';
import type { Web, WebPage } from './support/browser.js';
import { startWeb, until } from './support/browser.js';

let web: Web;
/** Shows one document after the other. */
let tab: WebPage | undefined;
beforeAll(async () => {
  web = await startWeb();
}, 60_000);
afterAll(() => web.close());

describe.each([
  ['Vue', 'counter-vue.ts', {}],
  ['Vue, the source inside `reactive()`', 'counter-vue.ts', { reactive: 1 }],
  ['Svelte', 'counter-svelte.ts', {}],
  ['Solid', 'counter-solid.ts', {}],
  ['Angular', 'counter-angular.ts', {}],
])('a store in %s', (_name, file, query) => {
  it('is shown once a frame, listened to while it is shown, and left with its component', async () => {
    if (tab) await web.show(tab, file, query);
    tab ??= await web.open(file, query);
    const { page, errors } = tab;
    const text = (): Promise<string | null> => page.textContent('#root p');
    await until('the page is there', () => page.evaluate(() => 'counter' in globalThis));
    expect(await text()).toBe('0');
    const shown = await page.evaluate(async () => {
      const frame = (): Promise<unknown> => new Promise(requestAnimationFrame);
      const seen: (string | null)[] = [];
      const watched = document.querySelector('#root')!;
      new MutationObserver(() => seen.push(watched.textContent.trim())).observe(watched, {
        subtree: true,
        childList: true,
        characterData: true,
      });
      for (const round of [100, 200, 300]) {
        globalThis.counter.emit(...Array.from({ length: 50 }, (_, i) => round + i));
        for (let i = 0; i < 4; i++) await frame();
      }
      return seen;
    });
    expect([...new Set(shown)]).toEqual(['149', '249', '349']);
    expect(shown.length).toBeLessThanOrEqual(3);
    expect(await page.evaluate(() => globalThis.counter.isObserved())).toBe(true);
    await page.evaluate(() => globalThis.counter.unmount());
    await until('the source is left', async () => !(await page.evaluate(() => globalThis.counter.isObserved())));
    expect(errors).toEqual([]);
  });
});

describe('the hooks in React 18', () => {
  let opened: WebPage;
  beforeAll(async () => {
    opened = await web.open('hooks.ts', {}, { mode: 'development', isOlder: true });
    expect(await opened.page.evaluate(() => globalThis.hooks.version)).toBe('18.3.1');
  });
  afterAll(() => opened.context.close());

  const does = (what: Exclude<keyof HooksPage, 'version'>, updates: 'sync' | 'concurrent'): Promise<unknown> =>
    opened.page.evaluate(([name, mode]) => globalThis.hooks[name](mode), [what, updates] as const);

  describe.each(['sync', 'concurrent'] as const)('updates: %s', (updates) => {
    it.each([
      ['one run in strict mode, which is left with its component', 'strictMode', ['shown', { came: 1, left: 0 }, { came: 1, left: 1 }]],
      [
        'no run while the first render is suspended, one when it is shown',
        'suspense',
        [['waiting', 0], ['shown', 1], { came: 1, left: 1 }],
      ],
      ['what the server has sent, then the snapshot, without a complaint', 'server', ['of the server', 'of the server', 'of the page', []]],
      ['the newest in all components after a slow transition', 'transition', ['1'.repeat(12), []]],
    ] as const)('%s', async (_what, row, expected) => {
      expect(await does(row, updates)).toEqual(expected);
      expect(opened.errors).toEqual([]);
    });
  });

  it('a turn is asked for once, and shown', async () => {
    expect(await does('turns', 'sync')).toBe('finished: Hello Hello!');
    expect(opened.errors).toEqual([]);
  });
});
