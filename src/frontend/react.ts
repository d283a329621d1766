import { useMemo, useState } from 'react';
import { Observable } from 'rxjs';
import { check } from '../../operators/build.js';
import type { ToStoreOptions } from '../../operators/index.js';
import { toStore } from '../../operators/index.js';
import type { FlowStore, Reader } from './react-readers.js';
import { useAtOnce, useTransitions } from './react-readers.js';

export type { FlowStore } from './react-readers.js';

/** @beta */
export interface FlowValueOptions {
  /**
   * How a change reaches the page. `'sync'` renders it at once, and all components of a page show the same snapshot at all times.
   * `'concurrent'` renders it as a transition: it interrupts nobody's typing and restarts no navigation that is under way; what is mounted meanwhile
   * may be ahead of the others until the transition ends. Read once, when the component is mounted. @defaultValue 'sync'
   */
  readonly updates?: 'sync' | 'concurrent';
}

/** @beta */
export interface UseFlowOptions extends ToStoreOptions, FlowValueOptions {}

/** How long {@link useFlow} keeps its source after the component has left: React's strict mode leaves and comes back within a moment. */
const USE_FLOW_DEFAULTS = { keepAliveMs: 50 } as const;

/**
 * The snapshot of a store, or what `select` makes of it. The component renders anew when that is another value; what `select` throws goes to the next
 * error boundary. `select` may be written inline.
 *
 * @beta
 * @param isEqual Whether two selected values count as the same, and the older stays. @defaultValue `Object.is`
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at the first render, when `updates` is none of its words.
 * @example
 * ```ts
 * import { createElement } from 'react';
 * import { renderToString } from 'react-dom/server';
 * import { NEVER } from 'rxjs';
 * import { toStore } from 'sluice/operators';
 * import { useFlowValue } from 'sluice/react';
 *
 * const store = toStore(NEVER, { text: 'Hello', calls: 2 }, { pace: 'frame' });
 * const Text = () => createElement('p', null, useFlowValue(store, ({ text }) => text));
 * renderToString(createElement(Text)); // => '<p>Hello</p>'
 * ```
 * @see {@link useFlow} when the store belongs to one component.
 */
export function useFlowValue<S, R = S>(
  store: FlowStore<S>,
  select: (snapshot: S) => R = asItIs,
  isEqual: (a: R, b: R) => boolean = Object.is,
  options: FlowValueOptions = {},
): R {
  const [read] = useState(
    () => readers[check.oneOf('sync', 'concurrent')('useFlowValue', 'updates', check.orDefault(options.updates, 'sync'))],
  );
  return read(store, select, isEqual);
}

/**
 * The newest value of a source of this component's own: subscribed to when it is mounted, left, and so aborted, when it goes. `source` is
 * called when the component is made, and has to make a cold stream: components that are never mounted (Suspense, strict mode) subscribe to nothing. Give
 * the component another `key` for another source.
 *
 * @beta
 * @param options Those of `toStore`, and `updates`; `keepAliveMs` is 50 by default. They are read at the first render.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at the first render, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createElement } from 'react';
 * import { renderToString } from 'react-dom/server';
 * import { interval } from 'rxjs';
 * import { useFlow } from 'sluice/react';
 *
 * const Clock = () => createElement('p', null, useFlow(() => interval(1000), 0, { pace: 'frame' }));
 * renderToString(createElement(Clock)); // => '<p>0</p>'
 * ```
 * @see {@link useFlowValue} for a store that several components read, or that outlives them.
 */
export function useFlow<T, S = T>(source: () => Observable<T>, initial: S, options: UseFlowOptions = {}): T | S {
  const [store] = useState(() => {
    const { updates: _, ...own } = options;
    return toStore<T, S>(source(), initial, { ...USE_FLOW_DEFAULTS, ...own });
  });
  return useFlowValue(store, undefined, undefined, options);
}

/** What {@link useFlowStats} reads of the result of `createMetrics`. */
interface FlowStatsSource<M> {
  snapshot(): M;
  readonly metrics$: { subscribe(next: (metrics: M) => void): { unsubscribe(): void } };
}

/**
 * The numbers of `createMetrics`, for a dashboard: at once, and after each change, at most one every `intervalMs` of the metrics.
 *
 * @beta
 * @example
 * ```ts
 * import { createElement } from 'react';
 * import { renderToString } from 'react-dom/server';
 * import { createMetrics } from 'sluice/metrics';
 * import { useFlowStats } from 'sluice/react';
 *
 * const metrics = createMetrics({ intervalMs: 500 });
 * const Queue = () => createElement('p', null, `waiting: ${useFlowStats(metrics).queued}`);
 * renderToString(createElement(Queue)); // => '<p>waiting: 0</p>'
 * ```
 */
export function useFlowStats<M>(metrics: FlowStatsSource<M>): M {
  const store = useMemo(() => {
    let shown: M | undefined;
    const getSnapshot = (): M => (shown ??= metrics.snapshot());
    const subscribe = (listener: () => void): (() => void) => {
      const subscription = metrics.metrics$.subscribe((next) => {
        shown = next;
        listener();
      });
      return () => {
        subscription.unsubscribe();
      };
    };
    return { subscribe, getSnapshot, getServerSnapshot: getSnapshot };
  }, [metrics]);
  return useFlowValue(store);
}

/** What {@link useAgentTurn} uses of the result of `createAgentTurn`. */
interface AgentTurnSource<I, V extends AgentTurnView> {
  ask(intent: I, options: { readonly key: string }): { subscribe(): unknown };
  stop(key: string): void;
  store(key: string): FlowStore<V>;
}

/**
 * What a view says of its turn.
 * @beta
 */
export interface AgentTurnView {
  readonly status: string;
  readonly error?: unknown;
}

/** @beta */
export interface AgentTurnHandle<I, V extends AgentTurnView> {
  /** The conversation, and the turn under way. */
  readonly view: V;
  /** What became of the last turn: `view.status`. */
  readonly status: V['status'];
  /** Why it failed: `view.error`. */
  readonly error: V['error'];
  /** Starts a turn, and gives up the one before. The same function at every render. */
  readonly ask: (intent: I) => void;
  /** Ends the turn under way, at the model too. The same function at every render. */
  readonly stop: () => void;
}

/**
 * One conversation of `createAgentTurn`: what it looks like, once a frame, and how to go on with it. A turn that nobody watches is given up: when the
 * last component of its key has left the page, for longer than 50 ms.
 *
 * @beta
 * @param key Which conversation. @defaultValue 'default'
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at the first render, when `updates` is none of its words.
 * @example
 * ```ts
 * import { createElement as h } from 'react';
 * import { renderToString } from 'react-dom/server';
 * import { createAgentTurn } from 'sluice';
 * import { useAgentTurn } from 'sluice/react';
 *
 * const turns = createAgentTurn({ model: async function* () { yield 'Because.'; } });
 * const Chat = () => {
 *   const { status, ask, stop } = useAgentTurn(turns, 'chat-1');
 *   return status === 'running' ? h('button', { onClick: stop }, 'Stop') : h('button', { onClick: () => ask('Why?') }, 'Ask');
 * };
 * renderToString(h(Chat)); // => '<button>Ask</button>'
 * ```
 */
export function useAgentTurn<I, V extends AgentTurnView>(
  turns: AgentTurnSource<I, V>,
  key = 'default',
  options?: FlowValueOptions,
): AgentTurnHandle<I, V> {
  const { store, ...actions } = useMemo(() => {
    const shown = turns.store(key);
    const views = new Observable<V>((subscriber) => {
      const show = (): void => {
        subscriber.next(shown.getSnapshot());
      };
      subscriber.add(shown.subscribe(show));
      show();
    });
    const { subscribe, getSnapshot } = toStore(views, shown.getSnapshot(), { ...USE_FLOW_DEFAULTS, pace: 'frame' });
    return {
      store: { subscribe, getSnapshot, getServerSnapshot: shown.getServerSnapshot },
      // What it shows is the store's: a turn is left with the last component that watches, not with the one that asked.
      ask: (intent: I): void => void turns.ask(intent, { key }).subscribe(),
      stop: (): void => {
        turns.stop(key);
      },
    };
  }, [turns, key]);
  const view = useFlowValue(store, undefined, undefined, options);
  return { view, status: view.status, error: view.error, ...actions };
}

const asItIs = (snapshot: unknown): never => snapshot as never;

const readers: Readonly<Record<'sync' | 'concurrent', Reader>> = { sync: useAtOnce, concurrent: useTransitions };
