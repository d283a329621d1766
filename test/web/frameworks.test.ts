import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {} from './pages/counter.js';
import type { Web } from './support/browser.js';
import { startWeb, until } from './support/browser.js';

let web: Web;
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
    const { page, context, errors } = await web.open(file, query);
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
    await context.close();
  });
});
