import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { FlowEvent } from '../../../operators/index.js';
import type { FlowCounters } from '../../../src/inspector/counters.js';
import type { SluiceInspector } from '../../../src/inspector/index.js';
import { buildCli, type Cli, type CliChild } from '../../support/cli.js';
import { asLines, countersOf, recordedRun, rounded } from '../../support/recorded-run.js';
import { axeFaults } from '../../web/support/axe.js';
import { startWeb, until, type Web, type WebPage } from '../../web/support/browser.js';

let cli: Cli;
let web: Web;
let cwd: string;
const EVIL = '</script><script>globalThis.hacked = true</script><img src="https://example.com/x" onerror="globalThis.hacked = true">';
const EVENTS = recordedRun({ items: 90, throttledEvery: 6, poisoned: [13] });

beforeAll(async () => {
  [cli, web] = await Promise.all([buildCli(), startWeb()]);
});
afterAll(async () => {
  await web.close();
});
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-inspect-'));
});
afterEach(() => {
  rmSync(cwd, { recursive: true, force: true });
});

const file = (name: string): string => join(cwd, name);

async function serve(...args: string[]): Promise<{ readonly run: CliChild; readonly url: string }> {
  const run = cli.start(['inspect', ...args], { cwd });
  onTestFinished(async () => {
    run.child.kill('SIGTERM');
    await run.ended;
  });
  const [, url = ''] = await run.prints(/^inspector of .* on (\S+)\n/);
  return { run, url };
}

/** Opens a page; `requests` are all it asks for. */
async function open(url: string): Promise<WebPage & { readonly requests: readonly string[] }> {
  const requests: string[] = [];
  const opened = await web.visit('about:blank');
  onTestFinished(() => opened.context.close());
  opened.context.on('request', (request) => requests.push(request.url()));
  await opened.page.goto(url);
  return { ...opened, requests };
}

const shows = (page: Page, wanted: FlowCounters): Promise<void> =>
  until('the inspector has these counters', async () => {
    const counters = await page.evaluate(() => document.querySelector<SluiceInspector>('sluice-inspector')?.model.counters);
    return counters !== undefined && JSON.stringify(rounded(counters)) === JSON.stringify(wanted);
  });

describe('the page that is served', () => {
  it('shows the numbers of a file, follows it, and asks only where it came from', async () => {
    writeFileSync(file('run.jsonl'), asLines(EVENTS.slice(0, 100)));
    const { url } = await serve('run.jsonl');
    const { page, errors, requests } = await open(url);
    await shows(page, countersOf(EVENTS.slice(0, 100)));
    appendFileSync(file('run.jsonl'), asLines(EVENTS.slice(100)));
    await shows(page, countersOf(EVENTS));
    expect(await page.textContent('#status')).toBe('following');
    expect(errors).toEqual([]);
    expect([...new Set(requests)].sort()).toEqual([url, `${url}events`]);
    expect(await axeFaults(page, { onlySerious: true })).toEqual([]);
  });

  it('goes on by itself when the command was stopped and is there again', async () => {
    writeFileSync(file('run.jsonl'), asLines(EVENTS.slice(0, 50)));
    const { run, url } = await serve('run.jsonl');
    const { page } = await open(url);
    await shows(page, countersOf(EVENTS.slice(0, 50)));
    run.child.kill('SIGINT');
    await run.ended;
    await until('it says so', async () => /does not answer/.test((await page.textContent('#status')) ?? ''));
    writeFileSync(file('run.jsonl'), asLines(EVENTS));
    await serve('run.jsonl', '--port', new URL(url).port);
    await shows(page, countersOf(EVENTS));
  });

  it('plays a recording from its start, and goes back to what is now', async () => {
    writeFileSync(file('run.jsonl'), asLines(EVENTS));
    const { url } = await serve('run.jsonl');
    const { page, errors } = await open(url);
    await shows(page, countersOf(EVENTS));
    await page.getByRole('button', { name: 'Play it from the start' }).press('Enter');
    const settled = (): Promise<number> =>
      page.evaluate(() => document.querySelector<SluiceInspector>('sluice-inspector')?.model.counters.settled ?? 0);
    await until('it plays', async () => (await settled()) < 90);
    await until('it has played', async () => (await settled()) === 90);
    await page.getByRole('button', { name: 'Back to now' }).press('Enter');
    appendFileSync(file('run.jsonl'), asLines(EVENTS.slice(0, 1)));
    await until(
      'it follows again',
      async () => (await page.evaluate(() => document.querySelector<SluiceInspector>('sluice-inspector')?.model.counters.accepted)) === 91,
    );
    expect(errors).toEqual([]);
  });

  it('is worked with the keyboard alone', async () => {
    writeFileSync(file('run.jsonl'), asLines(EVENTS));
    const { url } = await serve('run.jsonl');
    const { page } = await open(url);
    await shows(page, countersOf(EVENTS));
    const focused = new Set<string>();
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press('Tab');
      focused.add(
        await page.evaluate(() => {
          const inside = document.querySelector('sluice-inspector')?.shadowRoot?.activeElement;
          return inside ? `${inside.tagName} ${inside.textContent}` : '';
        }),
      );
    }
    expect([...focused].filter((name) => name.startsWith('BUTTON')).length).toBeGreaterThanOrEqual(2);
  });
});

describe('a report', () => {
  const report = async (events: readonly FlowEvent[]): Promise<string> => {
    writeFileSync(file('run.jsonl'), asLines(events));
    const { code, stderr } = await cli.start(['inspect', 'run.jsonl', '--html', 'run.html'], { cwd }).ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return pathToFileURL(file('run.html')).href;
  };

  it('opens from the disk without any request, and shows the same numbers, in light and dark', async () => {
    const url = await report(EVENTS);
    const { page, errors, requests } = await open(url);
    await shows(page, countersOf(EVENTS));
    expect(requests.filter((asked) => !asked.startsWith('data:'))).toEqual([url]);
    expect(errors).toEqual([]);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await axeFaults(page, { onlySerious: true, onlyColours: colorScheme === 'dark' })).toEqual([]);
    }
    const { accepted, calls, lost } = countersOf(EVENTS);
    const terms = await page.$$eval('.numbers div', (all) => all.map((one) => [...one.children].map(({ textContent }) => textContent)));
    expect(Object.fromEntries(terms as [string, string][])).toMatchObject({
      accepted: String(accepted),
      calls: String(calls),
      lost: String(lost),
    });
  });

  it('opens its trees and its table with the keyboard', async () => {
    const { page } = await open(await report(EVENTS));
    for (const summary of ['The same as a table', 'items of lane']) {
      const details = page.locator('details', { has: page.locator('summary', { hasText: summary }) }).first();
      await details.locator('summary').first().focus();
      await page.keyboard.press('Enter');
      expect(await details.getAttribute('open')).toBe('');
    }
  });
});

it.each([
  ['served', (args: string[]) => serve(...args).then(({ url }) => url)],
  [
    'as a report',
    async (args: string[]) => {
      await cli.start(['inspect', ...args, '--html', 'run.html'], { cwd }).ended;
      return pathToFileURL(file('run.html')).href;
    },
  ],
])('does nothing that a lane is named after (%s)', async (_what, show) => {
  const events = recordedRun({ items: 40, throttledEvery: 5, lanes: [EVIL, '\u202Elanimret', 'normal'] });
  writeFileSync(file('run.jsonl'), asLines(events));
  const { page, errors, requests } = await open(await show(['run.jsonl']));
  await shows(page, countersOf(events));
  expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false);
  expect(requests.filter((url) => url.includes('example.com'))).toEqual([]);
  expect(errors).toEqual([]);
});
