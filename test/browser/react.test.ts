import type { ReactNode } from 'react';
import {
  Activity,
  Component,
  Fragment,
  createElement as h,
  StrictMode,
  Suspense,
  startTransition,
  use,
  useLayoutEffect,
  useState,
} from 'react';
import type { Root } from 'react-dom/client';
import { createRoot, hydrateRoot } from 'react-dom/client';
import { BehaviorSubject, NEVER, Observable, of, Subject } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { batch, toStore } from '../../operators/index.js';
import type { FlowStore, FlowValueOptions, UseFlowOptions } from '../../src/frontend/react.js';
import { useAgentTurn, useFlow, useFlowStats, useFlowValue } from '../../src/frontend/react.js';
import { createMetrics } from '../../src/metrics/index.js';

const MODES = ['sync', 'concurrent'] as const;

const frame = (): Promise<unknown> => new Promise(requestAnimationFrame);
const ms = (time: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, time));
/** Transitions end in a task of their own. */
const settled = async (): Promise<void> => {
  for (let i = 0; i < 3; i++) await frame();
};

let place: HTMLElement;
let root: Root;
let caught: unknown[];
let unhandled: unknown[];

beforeEach(() => {
  place = document.body.appendChild(document.createElement('div'));
  caught = [];
  unhandled = [];
  root = createRoot(place, { onCaughtError: (error) => caught.push(error), onUncaughtError: (error) => unhandled.push(error) });
});
afterEach(async () => {
  root.unmount();
  await settled();
  place.remove();
  expect(unhandled).toEqual([]);
});

async function render(node: ReactNode): Promise<void> {
  root.render(node);
  await settled();
}

/** A component that shows a store, and writes down each render. */
function viewOf<S, R = S>(store: FlowStore<S>, select?: (snapshot: S) => R, options?: FlowValueOptions) {
  const renders: R[] = [];
  const View = ({ of: other = store }: { readonly of?: FlowStore<S> }) => {
    const value = useFlowValue(other, select, undefined, options);
    renders.push(value);
    return h('i', null, String(value));
  };
  return { View, renders };
}

class Boundary extends Component<{ readonly children?: ReactNode }, { readonly error: unknown }> {
  override state = { error: undefined as unknown };
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override render() {
    return this.state.error === undefined ? this.props.children : `failed: ${(this.state.error as Error).message}`;
  }
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

describe.each(MODES)('useFlowValue, updates: %s', (updates) => {
  it('shows the snapshot, and each change of it', async () => {
    const source = new Subject<string>();
    const { View, renders } = viewOf(toStore(source, 'nothing'), undefined, { updates });
    await render(h(View));
    expect(place.textContent).toBe('nothing');
    source.next('something');
    await settled();
    expect(place.textContent).toBe('something');
    expect(renders).toEqual(['nothing', 'something']);
  });

  it('shows what came between render and mount', async () => {
    const { View } = viewOf(toStore(of('at once'), 'nothing'), undefined, { updates });
    await render(h(View));
    expect(place.textContent).toBe('at once');
  });

  it('renders at most once a frame at the pace of frames', async () => {
    const source = new Subject<number>();
    const { View, renders } = viewOf(toStore(source, 0, { pace: 'frame' }), undefined, { updates });
    await render(h(View));
    for (const round of [100, 200, 300]) {
      for (let i = 0; i < 50; i++) source.next(round + i);
      await settled();
    }
    expect(renders).toEqual([0, 149, 249, 349]);
  });

  it('does not render for a change that select does not see, and sees it with the next select', async () => {
    const source = new Subject<{ readonly a: number; readonly b: number }>();
    const store = toStore(source, { a: 1, b: 1 });
    const renders: number[] = [];
    const View = ({ field }: { readonly field: 'a' | 'b' }) => {
      const value = useFlowValue(store, (snapshot) => snapshot[field], undefined, { updates });
      renders.push(value);
      return value;
    };
    await render(h(View, { field: 'a' }));
    source.next({ a: 1, b: 2 });
    await settled();
    expect(renders).toEqual([1]);
    await render(h(View, { field: 'b' }));
    expect([renders, place.textContent]).toEqual([[1, 2], '2']);
  });

  it('keeps the older of two equal values, with a select that makes a new object each time', async () => {
    const source = new Subject<readonly number[]>();
    const store = toStore(source, [1, 2]);
    const renders: { readonly length: number }[] = [];
    const View = () => {
      const value = useFlowValue(
        store,
        ({ length }) => ({ length }),
        (a, b) => a.length === b.length,
        { updates },
      );
      renders.push(value);
      return value.length;
    };
    await render(h(View));
    source.next([3, 4]);
    await settled();
    source.next([5, 6, 7]);
    await settled();
    root.render(h(View));
    await settled();
    expect(renders.map(({ length }) => length)).toEqual([2, 3, 3]);
    expect(renders[2]).toBe(renders[1]);
  });

  it('renders again when only the status changes, if select asks for it', async () => {
    const source = new Subject<string>();
    const store = toStore(source, 'text');
    const { View, renders } = viewOf(store, () => store.status, { updates });
    await render(h(View));
    source.complete();
    await settled();
    expect([renders.at(-1), place.textContent]).toEqual(['completed', 'completed']);
  });

  it('hands what select throws to the error boundary, at the first render and at a later one', async () => {
    const source = new Subject<string>();
    const store = toStore(source, 'good');
    const select = (text: string) => {
      if (text.startsWith('bad')) throw new Error(text);
      return text;
    };
    const { View } = viewOf(store, select, { updates });
    await render(h(Boundary, { key: 1 }, h(View)));
    source.next('bad');
    await settled();
    expect(place.textContent).toBe('failed: bad');
    await render(h(Boundary, { key: 2 }, h(View, { of: toStore(NEVER, 'bad at once') })));
    expect(place.textContent).toBe('failed: bad at once');
    await render(h(Boundary, { key: 3 }, h(View, { of: toStore(NEVER, 'good again') })));
    expect(place.textContent).toBe('good again');
    expect(caught).toHaveLength(2);
    expect(source.observed).toBe(false);
  });

  it('hands what isEqual throws to the error boundary', async () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    const View = () =>
      useFlowValue(
        store,
        undefined,
        (a, b) => {
          if (a !== b) throw new Error('not comparable');
          return true;
        },
        { updates },
      );
    await render(h(Boundary, null, h(View)));
    expect(place.textContent).toBe('0');
    source.next(1);
    await settled();
    expect(place.textContent).toBe('failed: not comparable');
  });

  it('shows another store with the same commit, listens to it, and leaves the one before', async () => {
    const [first, second] = [new Subject<string>(), new Subject<string>()];
    const [one, two] = [toStore(first, 'one'), toStore(second, 'two')];
    const commits: (string | null)[] = [];
    const { View, renders } = viewOf(one, undefined, { updates });
    const Page = ({ of: store }: { readonly of: FlowStore<string> }) => {
      useLayoutEffect(() => {
        commits.push(place.textContent);
      });
      return h(View, { of: store });
    };
    await render(h(Page, { of: one }));
    first.next('one, later');
    await settled();
    await render(h(Page, { of: two }));
    expect([first.observed, second.observed]).toEqual([false, true]);
    second.next('two, later');
    await settled();
    expect(place.textContent).toBe('two, later');
    expect(commits).toEqual(['one', 'two']);
    expect(renders.slice(renders.indexOf('two'))).not.toContain('one, later');
  });

  it('can be unmounted by a listener in the middle of a change', async () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    const leave = store.subscribe(() => {
      if (store.getSnapshot() === 2) root.render(null);
    });
    onTestFinished(leave);
    const { View } = viewOf(store, undefined, { updates });
    await render(h(Fragment, null, h(View), h(View), h(View)));
    source.next(1);
    source.next(2);
    source.next(3);
    await settled();
    expect(place.textContent).toBe('');
    leave();
    expect(source.observed).toBe(false);
  });

  it('may send into its own source from an effect', async () => {
    const source = new BehaviorSubject(0);
    const store = toStore(source, 0);
    const View = () => {
      const value = useFlowValue(store, undefined, undefined, { updates });
      useLayoutEffect(() => {
        if (value < 5) source.next(value + 1);
      }, [value]);
      return value;
    };
    await render(h(View));
    await settled();
    expect(place.textContent).toBe('5');
  });

  it('subscribes to nothing while its first render is suspended, and once when it is shown', async () => {
    const { count, observable } = counted(new BehaviorSubject('shown'));
    const store = toStore(observable, 'nothing');
    let go!: () => void;
    const data = new Promise<void>((resolve) => (go = resolve));
    const View = () => {
      const value = useFlowValue(store, undefined, undefined, { updates });
      use(data);
      return value;
    };
    await render(h(Suspense, { fallback: 'waiting' }, h(View)));
    expect([place.textContent, count.came]).toEqual(['waiting', 0]);
    go();
    // React shows what was suspended 300 ms after its fallback, not sooner.
    await expect.poll(() => [place.textContent, count.came]).toEqual(['shown', 1]);
    await render(null);
    expect(count).toEqual({ came: 1, left: 1 });
  });

  it('shows what the server sent until it is hydrated, then the snapshot, without a complaint', async () => {
    const store = toStore(new BehaviorSubject('of the page'), 'of the server');
    const leave = store.subscribe(() => undefined);
    onTestFinished(leave);
    expect(store.getSnapshot()).toBe('of the page');
    const { View, renders } = viewOf(store, undefined, { updates });
    const own = document.body.appendChild(document.createElement('div'));
    own.innerHTML = '<i>of the server</i>';
    const complaints: unknown[] = [];
    const hydrated = hydrateRoot(own, h(View), { onRecoverableError: (error) => complaints.push(error) });
    onTestFinished(() => {
      hydrated.unmount();
      own.remove();
    });
    await settled();
    expect([renders[0], own.textContent, complaints]).toEqual(['of the server', 'of the page', []]);
  });

  it('shows the same in all components of a commit, while a slow transition renders', async () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    const commits: string[] = [];
    const Reader = () => {
      // Slow enough for React to let others go between two of them.
      for (const end = performance.now() + 4; performance.now() < end; );
      return h('i', null, `${useFlowValue(store, undefined, undefined, { updates })},`);
    };
    let setPage!: (page: number) => void;
    const Page = () => {
      const [page, set] = useState(0);
      setPage = set;
      useLayoutEffect(() => {
        commits.push(place.textContent);
      });
      // Not memoised by React: the transition renders all of them.
      return Array.from({ length: 12 }, (_, i) => h(Reader, { key: `${page}-${i}` }));
    };
    const Watch = () => {
      useFlowValue(store, undefined, undefined, { updates });
      useLayoutEffect(() => {
        commits.push(place.textContent);
      });
      return null;
    };
    await render(h(Fragment, null, h(Page), h(Watch)));
    startTransition(() => {
      setPage(1);
    });
    for (let i = 1; i <= 5; i++) {
      await ms(9);
      source.next(i);
    }
    // As long as it takes: a busy machine renders slowly, and a transition begins anew with every value.
    await expect.poll(() => commits.at(-1), { timeout: 20_000 }).toBe('5,'.repeat(12));
    const torn = commits.filter((text) => new Set(text.split(',').filter(Boolean)).size > 1);
    // What is mounted in the middle of a transition may be ahead there; at once, never.
    if (updates === 'sync') expect(torn).toEqual([]);
  });
});

describe('useFlowValue', () => {
  it('lets an urgent update go first when its own are transitions', async () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    const commits: string[] = [];
    let rendered = 0;
    const Slow = () => {
      for (const end = performance.now() + 3; performance.now() < end; );
      const value = useFlowValue(store, undefined, undefined, { updates: 'concurrent' });
      if (value === 1 && ++rendered === 5) {
        queueMicrotask(() => {
          place.querySelector('button')!.click();
        });
      }
      return value;
    };
    const Field = () => {
      const [text, set] = useState('');
      useLayoutEffect(() => {
        commits.push(place.textContent);
      });
      const onClick = () => {
        set('typed');
      };
      return h('button', { onClick }, `${text}:`);
    };
    await render(h(Fragment, null, h(Field), ...Array.from({ length: 40 }, (_, key) => h(Slow, { key }))));
    source.next(1);
    await expect.poll(() => place.textContent).toBe(`typed:${'1'.repeat(40)}`);
    expect(commits).toContain(`typed:${'0'.repeat(40)}`);
  });

  it('shows one change in all components at once when updates are transitions', async () => {
    const source = new Subject<number>();
    const { View } = viewOf(toStore(source, 0), undefined, { updates: 'concurrent' });
    await render(Array.from({ length: 20 }, (_, key) => h(View, { key })));
    const seen: string[] = [];
    const observer = new MutationObserver(() => seen.push(place.textContent));
    observer.observe(place, { subtree: true, characterData: true, childList: true });
    source.next(1);
    await settled();
    source.next(2);
    source.next(3);
    await settled();
    observer.disconnect();
    expect([...new Set(seen)]).toEqual(['1'.repeat(20), '3'.repeat(20)]);
  });

  it('refuses another kind of updates at the first render', async () => {
    const { View } = viewOf(toStore(NEVER, 0), undefined, { updates: 'later' as 'sync' });
    await render(h(Boundary, null, h(View)));
    expect(place.textContent).toBe("failed: useFlowValue: expected `updates` to be one of 'sync', 'concurrent', got `later` (string)");
  });
});

describe.each(MODES)('useFlow, updates: %s', (updates) => {
  const viewOfFlow = (source: () => Observable<string>, options?: UseFlowOptions) => {
    const View = () => useFlow(source, 'nothing', { updates, ...options });
    return View;
  };

  it.each([
    ['plain', (view: ReactNode) => view],
    ['strict', (view: ReactNode) => h(StrictMode, null, view)],
  ])('makes one run in %s mode, shows it, and aborts it when its component goes', async (_name, inMode) => {
    const source = new Subject<string>();
    const { count, observable } = counted(source);
    await render(inMode(h(viewOfFlow(() => observable))));
    expect([place.textContent, count.came, count.left]).toEqual(['nothing', 1, 0]);
    source.next('a word');
    await settled();
    expect(place.textContent).toBe('a word');
    await render(null);
    await ms(80);
    expect(count).toEqual({ came: 1, left: 1 });
  });

  it('keeps the run of a component that is hidden for less than keepAliveMs, and aborts it after', async () => {
    const source = new Subject<string>();
    const { count, observable } = counted(source);
    const View = viewOfFlow(() => observable, { keepAliveMs: 600 });
    const show = (mode: 'visible' | 'hidden') => render(h(Activity, { mode, children: h(View) }));
    await show('visible');
    source.next('before');
    await show('hidden');
    source.next('meanwhile');
    await show('visible');
    expect([place.textContent, count.came, count.left]).toEqual(['meanwhile', 1, 0]);
    await show('hidden');
    await expect.poll(() => count, { timeout: 20_000 }).toEqual({ came: 1, left: 1 });
  });

  it('subscribes to nothing while its first render is suspended', async () => {
    const { count, observable } = counted(NEVER as Observable<string>);
    const never = new Promise<void>(() => undefined);
    const View = () => {
      useFlow(() => observable, 'nothing', { updates });
      use(never);
      return null;
    };
    await render(h(Suspense, { fallback: 'waiting' }, h(View)));
    await render(null);
    expect([count.came, count.left]).toEqual([0, 0]);
  });

  it('keeps the last value of a source that fails', async () => {
    const failing = new Subject<string>();
    const View = viewOfFlow(() => failing);
    await render(h(View));
    failing.next('last');
    await settled();
    failing.error(new Error('gone'));
    await settled();
    expect(place.textContent).toBe('last');
  });
});

describe('useFlow', () => {
  it.each([
    [{ pace: 'often' }, /^failed: toStore: expected `pace`/],
    [{ keepAlive: 5 }, /^failed: toStore: unknown option `keepAlive`/],
    [{ updates: 'never' }, /^failed: useFlowValue: expected `updates`/],
  ])('refuses %o at the first render', async (options, message) => {
    const View = () => useFlow(() => NEVER, 'nothing', options as UseFlowOptions);
    await render(h(Boundary, null, h(View)));
    expect(place.textContent).toMatch(message);
  });
});

describe('useFlowStats', () => {
  it('shows the numbers at once and after each change, and leaves no timer', async () => {
    const metrics = createMetrics({ intervalMs: 20 });
    const View = () => `${useFlowStats(metrics).flow.batches}`;
    await render(h(StrictMode, null, h(View)));
    const before = place.textContent;
    of(1, 2, 3, 4)
      .pipe(batch({ maxSize: 2, onEvent: metrics.sink }))
      .subscribe();
    expect(before).toBe('0');
    await expect.poll(() => place.textContent, { timeout: 20_000 }).toBe('2');
  });
});

describe.each(MODES)('useAgentTurn, updates: %s', (updates) => {
  /** Stands for the turns of an agent: says what was asked of it, and shows what it is told to. */
  const fakeTurns = () => {
    const told: unknown[] = [];
    const views = new Map<string, Subject<View>>();
    interface View {
      readonly status: 'idle' | 'running' | 'failed';
      readonly text: string;
      readonly error?: unknown;
    }
    const stores = new Map<string, FlowStore<View>>();
    const viewsOf = (key: string): Subject<View> => {
      if (!views.has(key)) {
        const subject = new Subject<View>();
        views.set(key, subject);
        stores.set(key, toStore(subject, { status: 'idle', text: `${key} is empty` }));
      }
      return views.get(key)!;
    };
    const turns = {
      ask: (intent: string, { key }: { readonly key: string }) => {
        return new Observable<never>(() => {
          told.push(['ask', key, intent]);
        });
      },
      stop: (key: string) => told.push(['stop', key]),
      store: (key: string) => {
        void viewsOf(key);
        return stores.get(key)!;
      },
    };
    return { turns, told, viewsOf };
  };

  it('shows the view of its key, and asks and stops with functions that stay the same', async () => {
    const { turns, told, viewsOf } = fakeTurns();
    const functions = new Set<unknown>();
    let now!: ReturnType<typeof useAgentTurn<string, { readonly status: string; readonly text: string; readonly error?: unknown }>>;
    const View = ({ of }: { readonly of: string }) => {
      now = useAgentTurn(turns, of, { updates });
      functions.add(now.ask).add(now.stop);
      return `${now.status}: ${now.view.text} ${now.error === undefined ? '' : (now.error as Error).message}`;
    };
    await render(h(StrictMode, null, h(View, { of: 'a' })));
    expect(place.textContent).toBe('idle: a is empty ');
    now.ask('why?');
    viewsOf('a').next({ status: 'running', text: 'because' });
    await settled();
    expect(place.textContent).toBe('running: because ');
    now.stop();
    viewsOf('a').next({ status: 'failed', text: 'because', error: new Error('gone') });
    await settled();
    expect(place.textContent).toBe('failed: because gone');
    // Strict mode makes them twice, and keeps one pair.
    expect(functions.size).toBeLessThanOrEqual(4);
    const ask = now.ask;
    await render(h(StrictMode, null, h(View, { of: 'b' })));
    // A component that mounts again within 50 ms finds its run.
    await ms(80);
    expect([place.textContent, viewsOf('a').observed, viewsOf('b').observed]).toEqual(['idle: b is empty ', false, true]);
    expect(now.ask).not.toBe(ask);
    now.ask('and b?');
    expect(told).toEqual([
      ['ask', 'a', 'why?'],
      ['stop', 'a'],
      ['ask', 'b', 'and b?'],
    ]);
  });
});
