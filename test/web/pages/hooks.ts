// The hooks where React has neither `use` nor `Activity`: what they must not do twice, too early, or otherwise than the server.
import type { ReactNode } from 'react';
import { createElement as h, StrictMode, Suspense, startTransition, useLayoutEffect, useState, version } from 'react';
import { createRoot, hydrateRoot } from 'react-dom/client';
import { renderToString } from 'react-dom/server';
import { BehaviorSubject, concat, NEVER, Observable, of, Subject } from 'rxjs';
import { toStore } from '../../../operators/index.js';
import { useAgentTurn, useFlow, useFlowValue } from '../../../src/frontend/react.js';
import { createAgentTurn } from '../../../src/index.js';

type Updates = 'sync' | 'concurrent';

/** Each does one thing on the page and says what came of it. */
export interface HooksPage {
  readonly version: string;
  strictMode(updates: Updates): Promise<unknown>;
  suspense(updates: Updates): Promise<unknown>;
  server(updates: Updates): Promise<unknown>;
  transition(updates: Updates): Promise<unknown>;
  turns(): Promise<unknown>;
}

declare global {
  var hooks: HooksPage;
}

const ms = (time: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, time));
const settled = async (): Promise<void> => {
  for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
};

function mount(node: ReactNode) {
  const place = document.body.appendChild(document.createElement('div'));
  const root = createRoot(place);
  root.render(node);
  return {
    place,
    leave: async () => {
      root.unmount();
      place.remove();
      await ms(100);
    },
  };
}

/** A source that counts its subscriptions and unsubscriptions. */
function counted<T>(source: Observable<T>) {
  const count = { came: 0, left: 0 };
  const observable = new Observable<T>((subscriber) => {
    count.came++;
    subscriber.add(() => count.left++);
    source.subscribe(subscriber);
  });
  return { count, observable };
}

globalThis.hooks = {
  version,

  async strictMode(updates) {
    const { count, observable } = counted(concat(of('shown'), NEVER));
    const View = () => useFlow(() => observable, 'nothing', { updates });
    const { place, leave } = mount(h(StrictMode, null, h(View)));
    await ms(100);
    const shown = [place.textContent, { ...count }];
    await leave();
    return [...shown, count];
  },

  async suspense(updates) {
    const { count, observable } = counted(new BehaviorSubject('shown'));
    const store = toStore(observable, 'nothing');
    let isReady = false;
    let go!: () => void;
    const data = new Promise<void>((resolve) => {
      go = () => {
        isReady = true;
        resolve();
      };
    });
    const View = () => {
      const value = useFlowValue(store, undefined, undefined, { updates });
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- how React 18 is told to wait
      if (!isReady) throw data;
      return value;
    };
    const { place, leave } = mount(h(Suspense, { fallback: 'waiting' }, h(View)));
    await settled();
    const waiting = [place.textContent, count.came];
    go();
    for (const end = performance.now() + 2000; place.textContent !== 'shown' && performance.now() < end; ) await ms(10);
    const shown = [place.textContent, count.came];
    await leave();
    return [waiting, shown, count];
  },

  async server(updates) {
    const store = toStore(new BehaviorSubject('of the page'), 'of the server');
    const leave = store.subscribe(() => undefined);
    const renders: string[] = [];
    const View = () => {
      const value = useFlowValue(store, undefined, undefined, { updates });
      renders.push(value);
      return value;
    };
    const sent = renderToString(h(View));
    const place = document.body.appendChild(document.createElement('div'));
    place.innerHTML = sent;
    const complaints: string[] = [];
    const root = hydrateRoot(place, h(View), { onRecoverableError: (error) => complaints.push(String(error)) });
    await settled();
    const seen = [sent, renders[1], place.textContent, complaints];
    root.unmount();
    place.remove();
    leave();
    return seen;
  },

  async transition(updates) {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    const commits: (string | null)[] = [];
    const Reader = () => {
      // Slow enough for React to let others go between two of them.
      for (const end = performance.now() + 4; performance.now() < end; );
      return h('i', null, useFlowValue(store, undefined, undefined, { updates }));
    };
    let setPage!: (page: number) => void;
    const Page = () => {
      const [page, set] = useState(0);
      setPage = set;
      useLayoutEffect(() => {
        commits.push(place.textContent);
      });
      return h('p', null, ...Array.from({ length: 12 }, (_, i) => h(Reader, { key: `${page}-${i}` })));
    };
    const { place, leave } = mount(h(Page));
    await settled();
    startTransition(() => {
      setPage(1);
    });
    await ms(15);
    source.next(1);
    for (const end = performance.now() + 2000; place.textContent !== '1'.repeat(12) && performance.now() < end; ) await ms(10);
    const shown = place.textContent;
    await leave();
    return [shown, updates === 'sync' ? commits.filter((text) => new Set(text).size > 1) : []];
  },

  async turns() {
    const turns = createAgentTurn({ model: ([question]) => of(`${question?.content as string}!`) });
    let askIt!: (question: string) => void;
    const View = () => {
      const { view, status, ask } = useAgentTurn(turns, 'a');
      askIt = ask;
      return `${status}: ${view.messages.map(({ content }) => content as string).join(' ')}`;
    };
    const { place, leave } = mount(h(StrictMode, null, h(View)));
    await settled();
    askIt('Hello');
    await settled();
    const shown = place.textContent;
    await leave();
    return shown;
  },
};
