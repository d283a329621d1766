import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { realModel, scriptedModel } from '../../../examples/chat-agent/models.js';
import type { ChatServer } from '../../../examples/chat-agent/server.js';
import { startChatServer } from '../../../examples/chat-agent/server.js';
import { fakeRuntime } from '../../support/fake-chat.js';
import type { Web, WebPage } from '../../web/support/browser.js';
import { startWeb, until } from '../../web/support/browser.js';

const ROOT = resolve(import.meta.dirname, '../../..');

let web: Web;
/** With the scripted model. */
let scripted: ChatServer;
beforeAll(async () => {
  [web, scripted] = await Promise.all([startWeb(), startChatServer({ model: scriptedModel })]);
}, 60_000);
afterAll(async () => {
  await web.close();
  await scripted.close();
});

async function chat(server: Pick<ChatServer, 'url'>): Promise<WebPage> {
  const opened = await web.visit(server.url);
  onTestFinished(() => opened.context.close());
  await opened.page.waitForSelector('form');
  return opened;
}

async function type(page: Page, question: string): Promise<void> {
  await page.fill('input', question);
  await page.press('input', 'Enter');
}

const log = (page: Page): Promise<(string | null)[]> =>
  page.$$eval('#log li', (lines) => lines.map((line) => line.textContent.replace(/\d+/, 'n')));
const said = (page: Page): Promise<string> => page.innerText('section');

it('typing again cancels the answer under way, and the log of the server on the page says so', async () => {
  const { page, errors } = await chat(scripted);
  await type(page, 'who are you?');
  await until('the answer has begun', async () => (await said(page)).includes('I am a script'));
  await type(page, 'what time is it?');
  await until('the tool of the page has answered, and the agent says it', async () => /It says: \d+:\d+/.test(await said(page)));
  await until('all is over', async () => (await log(page)).every((line) => !line?.includes('running')) && (await log(page)).length === 3);
  expect(await log(page)).toEqual([
    'who are you?: aborted after n pieces',
    'what time is it?: finished after n pieces',
    'what time is it?: finished after n pieces',
  ]);
  expect(await said(page)).toContain('clock({})');
  // What was said stays, and the conversation goes on.
  expect(await said(page)).toContain('You asked: "who are you?"');
  await type(page, 'and now?');
  await until('the next answer has begun', async () => (await said(page)).includes('You asked: "and now?"'));
  await page.click('text=Stop');
  await until('the server has seen the stop', async () => (await log(page)).at(-1) === 'and now?: aborted after n pieces');
  expect(errors).toEqual([]);
});

it('closing the page aborts the run', async () => {
  const { page } = await chat(scripted);
  await type(page, 'speak');
  await until('the answer has begun', async () => (await said(page)).includes('You asked'));
  await page.close();
  await until('the server has seen it', () => scripted.log.find(({ question }) => question === 'speak')?.end === 'aborted');
});

it('takes its answers from the chat model of the model server where there is one', async () => {
  const model = await realModel({ runtime: { ...fakeRuntime(), contextTokens: 2048 } });
  onTestFinished(() => model.close());
  const server = await startChatServer({ model });
  onTestFinished(() => server.close());
  const { page, errors } = await chat(server);
  await type(page, 'say this');
  await until('the model has answered', async () => (await said(page)).split('say this').length === 3);
  await until('the log says so', async () => (await log(page)).join() === 'say this: finished after n pieces');
  expect(await page.innerText('aside')).toContain(model.name);
  expect(errors).toEqual([]);
});

it('`npm run chat` starts it', async () => {
  const child = spawn('npm', ['run', '--silent', 'chat'], { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  onTestFinished(() => {
    process.kill(-child.pid!, 'SIGTERM');
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const [url = ''] = /http:\/\/127\.0\.0\.1:\d+/.exec(line.toString()) ?? [];
  const { page } = await chat({ url });
  await type(page, 'hello');
  await until('the agent answers', async () => (await said(page)).includes('You asked: "hello"'));
});
