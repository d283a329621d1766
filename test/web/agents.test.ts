import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { AgentServer } from '../support/agent-server.js';
import { startAgentServer } from '../support/agent-server.js';
import { isDeep } from '../support/deep.js';
import type {} from './pages/chat.js';
import type { Query, Web, WebPage } from './support/browser.js';
import { startWeb, until } from './support/browser.js';
import type { BundleOptions } from './support/bundle.js';

let web: Web;
beforeAll(async () => {
  web = await startWeb();
}, 60_000);
afterAll(() => web.close());

/** One for all, which shows a new document for each of them. */
let tab: WebPage | undefined;
let agents: AgentServer;
beforeEach(async () => {
  agents = await startAgentServer();
});
afterEach(() => agents.close());

/** A page with its client, under the load that the query says. */
async function chatPage(file: string, query: Query = {}, options: BundleOptions = {}): Promise<WebPage> {
  const asked = { agent: agents.url, ...query };
  if (tab === undefined || tab.page.isClosed()) tab = await web.open(file, asked, options);
  else await web.show(tab, file, asked, options);
  const { page } = tab;
  await until('the page is there', () => page.evaluate(() => 'chat' in globalThis));
  return tab;
}

const send = ({ page }: WebPage, text: string): Promise<void> =>
  page.evaluate((said) => {
    globalThis.chat.send(said);
  }, text);
const text = ({ page }: WebPage): Promise<string> => page.evaluate(() => globalThis.chat.text());
const status = ({ page }: WebPage): Promise<string> => page.evaluate(() => globalThis.chat.status());
/** What the server says in full. */
const words = (count: number): string => Array.from({ length: count }, (_, i) => `w${i} `).join('');

interface Way {
  readonly name: string;
  readonly file: string;
  /** What switches ours on. */
  readonly flow?: Query;
  /** A client of its own tells of the run, and of its messages, each in its own time: two renders for one of ours. */
  readonly isOurs?: boolean;
  readonly options?: BundleOptions;
}

/** Every way from a page to an agent. `npm test` goes the newest of each; what React 18 does with our hooks stands in `frameworks.test.ts`. */
const ways = (
  [
    { name: 'AG-UI, middlewares around runAgent', file: 'chat-plain.tsx', flow: { flow: 1 } },
    { name: 'AG-UI, operators and a store', file: 'chat-store.tsx', isOurs: true },
    { name: 'AI SDK 7, useChat', file: 'chat-ai-sdk.tsx', flow: { flow: 1 } },
    { name: 'AI SDK 6 and React 18, useChat', file: 'chat-ai-sdk.tsx', flow: { flow: 1 }, options: { isOlder: true } },
    { name: 'turns of an agent, useAgentTurn', file: 'chat-turn.tsx', isOurs: true },
  ] satisfies Way[] as readonly Way[]
).filter(({ options }) => isDeep || options?.isOlder !== true);

describe('500 pieces a second are rendered at most once a frame, and all of the text is shown', () => {
  it.for(ways)('$name', async ({ file, flow, isOurs, options }) => {
    const chat = await chatPage(file, { ...flow, everyMs: 2, chunks: 500 }, options);
    await send(chat, 'speak quickly');
    await until('the answer has begun', async () => (await text(chat)) !== '');
    // What a client does to begin is its own.
    const before = await chat.page.evaluate(() => ({ ...globalThis.chat }));
    await until('the whole answer is there', async () => (await text(chat)) === words(500), 20_000);
    const after = await chat.page.evaluate(() => ({ ...globalThis.chat }));
    const shows = after.shows - before.shows + 1;
    expect(after.renders - before.renders).toBeLessThanOrEqual(isOurs ? shows : 2 * shows);
    if (isOurs) expect(after.mostPerFrame).toBeLessThanOrEqual(1);
    expect(agents.ends()).toEqual({ completed: 1 });
    expect(chat.errors).toEqual([]);
  });
});

describe.each(ways)('$name', ({ file, flow, options }) => {
  const open = (load: Query): Promise<WebPage> => chatPage(file, { ...flow, ...load }, options);

  it('three questions one after the other: the server completes one and sees two aborted', async () => {
    const chat = await open({ everyMs: 10 });
    for (const question of ['one', 'two', 'three']) {
      agents.say({ chunks: question === 'three' ? 20 : 5000 });
      await send(chat, question);
      await until(`the answer to ${question} has begun`, () => (agents.runs.find(({ prompt }) => prompt === question)?.sent ?? 0) > 3);
    }
    await until('the last answer is there', async () => (await text(chat)) === words(20));
    await until('the server has seen all of it', () => agents.ends().running === undefined);
    expect(agents.runs.map(({ prompt, end }) => [prompt, end])).toEqual([
      ['one', 'aborted'],
      ['two', 'aborted'],
      ['three', 'completed'],
    ]);
    expect(chat.errors).toEqual([]);
  });

  const leaves: Readonly<Record<string, (chat: WebPage) => Promise<void>>> = {
    stop: ({ page }) =>
      page.evaluate(() => {
        globalThis.chat.stop();
      }),
    'taking the component off the page': ({ page }) =>
      page.evaluate(() => {
        globalThis.chat.unmount();
      }),
    'closing the page': ({ page }) => page.close(),
  };
  it.for(Object.entries(leaves))('%s reaches the server', async ([, leave]) => {
    const chat = await open({ everyMs: 20, chunks: 500 });
    await send(chat, 'speak long');
    await until('the answer has begun', async () => (await text(chat)) !== '');
    await leave(chat);
    await until('the server has seen it', () => agents.ends().aborted === 1);
    expect(agents.runs[0]!.sent).toBeLessThan(500);
    expect(chat.errors).toEqual([]);
  });

  it.for([
    ['a run that fails', { failAt: 5 }],
    ['a socket that is cut', { cutAt: 5 }],
  ] as const)('%s leaves the page and the next question', async ([, fault]) => {
    const chat = await open({ everyMs: 10, chunks: 20 });
    agents.say(fault);
    await send(chat, 'fail');
    await until('the run is over', () => agents.ends().failed === 1 || agents.ends().cut === 1);
    await until('the page says so', async () => /failed|error/.test(await status(chat)));
    agents.say({});
    await send(chat, 'again');
    await until('the next answer is there', async () => (await text(chat)) === words(20));
    // What the browser itself says of a cut connection is no error of the page.
    expect(chat.errors.filter((error) => !error.includes('ERR_INCOMPLETE_CHUNKED_ENCODING'))).toEqual([]);
  });
});

describe('TanStack AI, useChat', () => {
  it.for([
    ['with its own connection renders every piece', {}, (renders: number) => renders >= 60],
    ['behind flowStream renders a burst a few times', { flow: 1 }, (renders: number) => renders <= 15],
  ] as const)('%s', async ([, flow, isRight]) => {
    const chat = await chatPage('chat-tanstack.tsx', { chunks: 60, ...flow });
    await send(chat, 'speak at once');
    await until('the whole answer is there', async () => (await text(chat)) === words(60), 20_000);
    const { renders } = await chat.page.evaluate(() => globalThis.chat);
    expect(renders).toSatisfy(isRight);
    expect(chat.errors).toEqual([]);
  });
});
