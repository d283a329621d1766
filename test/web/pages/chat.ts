import type { Message } from '@ag-ui/client';
import type { ReactNode } from 'react';
import { createElement, memo, useLayoutEffect } from 'react';
import type { Root } from 'react-dom/client';
import { createRoot } from 'react-dom/client';

/** Where the agent of the test is, what it says, and at what pace it is shown. */
export const query = Object.fromEntries(new URLSearchParams(location.search)) as Readonly<Record<string, string | undefined>>;
/** The agent, with the load that the test asks for. */
export const agentUrl = (route: string): string => {
  const url = new URL(route, query['agent']);
  for (const name of ['chunks', 'everyMs', 'tools', 'failAt', 'cutAt']) if (query[name]) url.searchParams.set(name, query[name]);
  return url.href;
};
/** For stores and merging: once a frame, or once in so many ms. */
export const pace =
  query['pace'] === undefined || query['pace'] === 'frame'
    ? ({ pace: 'frame' } as const)
    : ({ pace: 'time', maxWaitMs: Number(query['pace']) } as const);

/** A conversation of forty messages, as every question carries it along. */
export const history: readonly Message[] = Array.from({ length: 40 }, (_, i) => ({
  id: `history-${i}`,
  role: i % 2 === 0 ? 'user' : 'assistant',
  content: `${i}: ${'something that was said before '.repeat(8)}`,
}));

export interface ChatPage {
  send(text: string): void;
  stop(): void;
  unmount(): void;
  /** What the page says of the last answer. */
  text(): string;
  /** What became of the last run, in the words of the page. */
  status(): string;
  renders: number;
  /** Most renders between two frames, besides those that the time has shown because the next frame was late. */
  mostPerFrame: number;
  /** How often there was something to show so far: animation frames, and once for every 100 ms that one was late. */
  shows: number;
}

declare global {
  var chat: ChatPage;
}

let frameRenders = 0;
/** When `pace: 'frame'` waits no longer for a frame. */
const LATE_MS = 100;

/** In a component: counts its renders that reach the page. */
export function useCount(): void {
  useLayoutEffect(() => {
    globalThis.chat.renders++;
    frameRenders++;
  });
}

const Said = memo(({ role, text }: { readonly role: string; readonly text: string }) =>
  createElement('p', { className: role }, createElement('b', null, role), text),
);

const Block = memo(({ text }: { readonly text: string }) => createElement('span', { style: { display: 'block' } }, text));

/** An answer in blocks, as chats show paragraphs: what is written at the end is no reason to lay out the beginning again. */
function blocksOf(text: string): ReactNode {
  return (text.match(/[^]{1,600}/g) ?? []).map((block, key) => createElement(Block, { key, text: block }));
}

/** What was said before, and the answer that is being written. */
export function Transcript({ text, status }: { readonly text: string; readonly status: string }): ReactNode {
  useCount();
  return [
    ...history.map(({ id, role, content }) => createElement(Said, { key: id, role, text: content as string })),
    createElement('div', { key: 'answer', id: 'answer' }, blocksOf(text)),
    createElement('p', { key: 'status', id: 'status' }, status),
  ];
}

/** Mounts the page, and lets the test use it. */
export function show(page: ReactNode, actions: Pick<ChatPage, 'send' | 'stop'>): void {
  let last = performance.now();
  const nextFrame = (): void => {
    const now = performance.now();
    const late = Math.floor((now - last) / LATE_MS);
    last = now;
    globalThis.chat.mostPerFrame = Math.max(globalThis.chat.mostPerFrame, frameRenders - late);
    globalThis.chat.shows += 1 + late;
    frameRenders = 0;
    requestAnimationFrame(nextFrame);
  };
  requestAnimationFrame(nextFrame);
  const root: Root = createRoot(document.querySelector('#root') as HTMLElement);
  globalThis.chat = {
    ...actions,
    unmount: () => {
      root.unmount();
    },
    text: () => document.querySelector('#answer')?.textContent ?? '',
    status: () => document.querySelector('#status')?.textContent ?? '',
    renders: 0,
    mostPerFrame: 0,
    shows: 0,
  };
  root.render(page);
}
