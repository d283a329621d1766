import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { AgentServer } from '../support/agent-server.js';
import { startAgentServer } from '../support/agent-server.js';
import type {} from './pages/chat.js';
import type { Web, WebPage } from './support/browser.js';
import { startWeb, until } from './support/browser.js';

let web: Web;
let agents: AgentServer;
beforeAll(async () => {
  web = await startWeb();
}, 60_000);
afterAll(() => web.close());
beforeEach(async () => {
  agents = await startAgentServer();
});
afterEach(() => agents.close());

type Query = Readonly<Record<string, string | number>>;

/** A page with its client, under the load that the query says. */
async function chatPage(file: string, query: Query = {}): Promise<WebPage> {
  const opened = await web.open(file, { agent: agents.url, ...query });
  onTestFinished(() => opened.context.close());
  await until('the page is there', () => opened.page.evaluate(() => 'chat' in globalThis));
  return opened;
}

const send = ({ page }: WebPage, text: string): Promise<void> =>
  page.evaluate((said) => {
    globalThis.chat.send(said);
  }, text);
const text = ({ page }: WebPage): Promise<string> => page.evaluate(() => globalThis.chat.text());
const status = ({ page }: WebPage): Promise<string> => page.evaluate(() => globalThis.chat.status());
/** What the server says in full. */
const words = (count: number): string => Array.from({ length: count }, (_, i) => `w${i} `).join('');

/** Every way from a page to an agent: what it is called, its page, how to switch ours on, and most renders between two frames. */
const ways = [
  // A client of its own tells of the run, and of its messages, each in its own time.
  ['AG-UI, middlewares around runAgent', 'chat-plain.tsx', { flow: 1 }, 2],
  ['AG-UI, operators and a store', 'chat-store.tsx', {}, 1],
  ['AI SDK, useChat', 'chat-ai-sdk.tsx', { flow: 1 }, 2],
  ['turns of an agent, useAgentTurn', 'chat-turn.tsx', {}, 1],
] as const;

describe.each(ways)('%s', (_name, file, flow, most) => {
  const open = (load: Query): Promise<WebPage> => chatPage(file, { ...flow, ...load });

  it('renders 500 pieces a second at most once a frame, and shows all of the text', async () => {
    const opened = await open({ everyMs: 2, chunks: 1000 });
    await send(opened, 'speak quickly');
    await until('the whole answer is there', async () => (await text(opened)) === words(1000), 20_000);
    const { renders, mostPerFrame } = await opened.page.evaluate(() => globalThis.chat);
    expect(mostPerFrame).toBeLessThanOrEqual(most);
    expect(renders).toBeLessThan(300);
    expect(agents.ends()).toEqual({ completed: 1 });
    expect(opened.errors).toEqual([]);
  });

  it('three questions one after the other: the server completes one and sees two aborted', async () => {
    const opened = await open({ everyMs: 20, chunks: 30 });
    for (const question of ['one', 'two', 'three']) {
      await send(opened, question);
      await until(`the answer to ${question} has begun`, () => (agents.runs.find(({ prompt }) => prompt === question)?.sent ?? 0) > 3);
    }
    await until('the last answer is there', async () => (await text(opened)) === words(30));
    await until('the server has seen all of it', () => agents.ends().running === undefined);
    expect(agents.runs.map(({ prompt, end }) => [prompt, end])).toEqual([
      ['one', 'aborted'],
      ['two', 'aborted'],
      ['three', 'completed'],
    ]);
    expect(opened.errors).toEqual([]);
  });

  it.each([
    [
      'stop',
      ({ page }: WebPage) =>
        page.evaluate(() => {
          globalThis.chat.stop();
        }),
    ],
    [
      'taking the component off the page',
      ({ page }: WebPage) =>
        page.evaluate(() => {
          globalThis.chat.unmount();
        }),
    ],
    ['closing the page', ({ page }: WebPage) => page.close()],
  ])('%s reaches the server', async (_how, leave) => {
    const opened = await open({ everyMs: 20, chunks: 500 });
    await send(opened, 'speak long');
    await until('the answer has begun', async () => (await text(opened)) !== '');
    await leave(opened);
    await until('the server has seen it', () => agents.ends().aborted === 1);
    expect(agents.runs[0]!.sent).toBeLessThan(500);
    expect(opened.errors).toEqual([]);
  });

  it.each([
    ['a run that fails', { failAt: 5 }],
    ['a socket that is cut', { cutAt: 5 }],
  ])('%s leaves the page and the next question', async (_what, fault) => {
    agents.say(fault);
    const opened = await open({ everyMs: 10, chunks: 20 });
    await send(opened, 'fail');
    await until('the run is over', () => agents.ends().failed === 1 || agents.ends().cut === 1);
    await until('the page says so', async () => /failed|error/.test(await status(opened)));
    agents.say({});
    await send(opened, 'again');
    await until('the next answer is there', async () => (await text(opened)) === words(20));
    // What the browser itself says of a cut connection is no error of the page.
    expect(opened.errors.filter((error) => !error.includes('ERR_INCOMPLETE_CHUNKED_ENCODING'))).toEqual([]);
  });
});

describe('TanStack AI, useChat', () => {
  it.each([
    ['with its own connection renders every piece', {}, (renders: number) => renders >= 200],
    ['behind flowStream renders a burst a few times', { flow: 1 }, (renders: number) => renders <= 30],
  ])('%s', async (_name, flow, isRight) => {
    const opened = await chatPage('chat-tanstack.tsx', { chunks: 200, ...flow });
    await send(opened, 'speak at once');
    await until('the whole answer is there', async () => (await text(opened)) === words(200), 20_000);
    const { renders } = await opened.page.evaluate(() => globalThis.chat);
    expect(renders).toSatisfy(isRight);
    expect(opened.errors).toEqual([]);
  });
});
