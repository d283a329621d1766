import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import { scriptedModel } from '../../examples/chat-agent/models.js';
import { startChatServer } from '../../examples/chat-agent/server.js';
import { buildPlayground } from '../../examples/playground/build.js';
import { loadPreset } from '../../examples/playground/engine/preset.js';
import { createWorld } from '../../examples/playground/engine/world.js';
import type { FlowCounters } from '../../src/inspector/counters.js';
import type { SluiceInspector } from '../../src/inspector/index.js';
import { buildCli, runHere, startHere } from '../support/cli.js';
import { asLines, countersOf, recordedRun, rounded } from '../support/recorded-run.js';
import type { Web, WebPage } from './support/browser.js';
import { startWeb, until } from './support/browser.js';
import { serveFolder } from './support/folder.js';

// The pages that come with the package and its examples, each once: all that can be done with them is tried in `test/deep/pages/`.

const EVENTS = recordedRun({ items: 90, throttledEvery: 6, poisoned: [13] });

let web: Web;
let cwd: string;
/** Shows one page after the other. */
let tab: WebPage;
beforeAll(async () => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-pages-'));
  [web] = await Promise.all([startWeb(), buildCli()]);
  tab = await web.visit('about:blank');
}, 60_000);
afterAll(async () => {
  await web.close();
  rmSync(cwd, { recursive: true, force: true });
});
beforeEach(async () => {
  // The server of the page before is gone, and that page may say so.
  await tab.page.goto('about:blank');
  tab.errors.length = 0;
});

const file = (name: string): string => join(cwd, name);

const shows = (wanted: FlowCounters): Promise<void> =>
  until('the inspector has these counters', async () => {
    const counters = await tab.page.evaluate(() => document.querySelector<SluiceInspector>('sluice-inspector')?.model.counters);
    return counters !== undefined && JSON.stringify(rounded(counters)) === JSON.stringify(wanted);
  });

it('`sluice inspect` shows the numbers of a file, and follows it', async () => {
  writeFileSync(file('run.jsonl'), asLines(EVENTS.slice(0, 100)));
  const [, url = ''] = await startHere(['inspect', 'run.jsonl'], { cwd }).prints(/^inspector of .* on (\S+)\n/);
  await tab.page.goto(url);
  await shows(countersOf(EVENTS.slice(0, 100)));
  appendFileSync(file('run.jsonl'), asLines(EVENTS.slice(100)));
  await shows(countersOf(EVENTS));
  expect(tab.errors).toEqual([]);
});

it('a report opens from the disk without any request, does nothing that a lane is named after, and shows the numbers of its file', async () => {
  const evil = '</script><script>globalThis.hacked = true</script><img src="https://example.com/x" onerror="globalThis.hacked = true">';
  const events = recordedRun({ items: 40, throttledEvery: 5, lanes: [evil, 'normal'] });
  writeFileSync(file('evil.jsonl'), asLines(events));
  expect(await runHere(['inspect', 'evil.jsonl', '--html', 'evil.html'], { cwd })).toMatchObject({ code: 0, stderr: '' });
  const url = pathToFileURL(file('evil.html')).href;
  const requests: string[] = [];
  tab.page.on('request', (request) => requests.push(request.url()));
  await tab.page.goto(url);
  await shows(countersOf(events));
  tab.page.removeAllListeners('request');
  expect(requests.filter((asked) => !asked.startsWith('data:'))).toEqual([url]);
  expect(await tab.page.evaluate(() => 'hacked' in globalThis)).toBe(false);
  expect(tab.errors).toEqual([]);
});

it('the playground counts in its pictures what a run in Node counts', async () => {
  await buildPlayground(file('playground'));
  const site = await serveFolder(file('playground'), '/some/where/');
  onTestFinished(() => site.close());
  const { page } = tab;
  await page.goto(`${site.url}#preset=smart-batcher&seconds=4`);
  await page.waitForSelector('html[data-ready="smart-batcher"]');
  await page.locator('.transport > button', { hasText: /^To the end$/ }).click();
  const { scenario, pipeline } = await loadPreset['smart-batcher']();
  const world = createWorld({ ...scenario, seconds: 4 }, pipeline, () => undefined);
  world.advance(1e9);
  for (const side of ['plain', 'sluice'] as const) {
    const { calls, throttled, tokens, lost, accepted, answered } = world.boards[side].counts;
    const shown = await page.$eval(`.board.${side} sluice-inspector`, (element) => (element as unknown as SluiceInspector).model.counters);
    expect(shown, side).toMatchObject({ calls, throttled, tokens, lost, accepted, fulfilled: answered });
    expect(calls).toBeGreaterThan(0);
  }
  world.close();
  expect(tab.errors).toEqual([]);
});

it('the chat of the examples cancels the answer under way when one types again, and its server says so', async () => {
  const server = await startChatServer({ model: scriptedModel });
  onTestFinished(() => server.close());
  const { page } = tab;
  const ask = async (question: string): Promise<void> => {
    await page.fill('input', question);
    await page.press('input', 'Enter');
  };
  await page.goto(server.url);
  await page.waitForSelector('form');
  await ask('who are you?');
  await until('the answer has begun', async () => (await page.innerText('section')).includes('I am a script'));
  await ask('what time is it?');
  await until('the tool of the page has answered, and the agent says it', async () =>
    /It says: \d+:\d+/.test(await page.innerText('section')),
  );
  await until('all is over', () => server.log.length === 3 && server.log.every(({ end }) => end !== 'running'));
  expect(server.log.map(({ question, end }) => [question, end])).toEqual([
    ['who are you?', 'aborted'],
    ['what time is it?', 'finished'],
    ['what time is it?', 'finished'],
  ]);
  expect(tab.errors).toEqual([]);
});
