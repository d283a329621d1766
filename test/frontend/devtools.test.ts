import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { Subject } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { isFlowError } from '../../operators/index.js';
import type { DevtoolsEvents, toDevtools as ToDevtools } from '../../src/frontend/devtools.js';
import { FlowModel } from '../../src/inspector/flow-model.js';
import { importRecording, replay } from '../../src/inspector/recording.js';
import { recordedRun } from '../support/recorded-run.js';

// Read by the client when it is imported: it does nothing elsewhere.
vi.hoisted(() => {
  process.env['NODE_ENV'] = 'development';
});

const EVENTS = recordedRun({ items: 40, poisoned: [5] });
const bus = globalThis as { __TANSTACK_EVENT_TARGET__?: EventTarget | undefined };

type Name = keyof DevtoolsEvents;
interface OnBus<N extends Name = Name> {
  readonly type: string;
  readonly payload: DevtoolsEvents[N];
}

/** As much as clients see of TanStack's event bus: it answers each connection, and hands every event to its listeners. */
function startBus() {
  const target = new EventTarget();
  const seen: OnBus[] = [];
  bus.__TANSTACK_EVENT_TARGET__ = target;
  return {
    seen,
    connect: () => {
      target.addEventListener('tanstack-connect', () => target.dispatchEvent(new CustomEvent('tanstack-connect-success')));
      target.addEventListener('tanstack-dispatch-event', (event) => {
        const { detail } = event as CustomEvent<OnBus>;
        seen.push(detail);
        target.dispatchEvent(new CustomEvent(detail.type, { detail }));
      });
    },
    hello: () => {
      sayHello(target);
      vi.advanceTimersByTime(1);
    },
    of: <N extends Name>(name: N): DevtoolsEvents[N][] =>
      seen.filter(({ type }) => type === `sluice:${name}`).map(({ payload }) => payload as DevtoolsEvents[N]),
  };
}

function sayHello(target: EventTarget): void {
  target.dispatchEvent(new CustomEvent('tanstack-dispatch-event', { detail: { type: 'sluice:hello', payload: {}, pluginId: 'sluice' } }));
}

function modelOf(events: readonly FlowEvent[]): FlowModel {
  const model = new FlowModel();
  for (const event of events) model.add(event);
  return model;
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  delete bus.__TANSTACK_EVENT_TARGET__;
  vi.useRealTimers();
  vi.unstubAllEnvs();
  vi.doUnmock('@tanstack/devtools-event-client');
});

// The second is what TanStack AI brings along.
describe.each([
  '@tanstack/devtools-event-client',
  '../../node_modules/@tanstack/ai-event-client/node_modules/@tanstack/devtools-event-client/dist/esm/index.js',
])('with the client of %s', (client) => {
  let toDevtools: typeof ToDevtools;
  beforeEach(async () => {
    vi.resetModules();
    if (client.startsWith('.')) vi.doMock('@tanstack/devtools-event-client', () => import(/* @vite-ignore */ client));
    ({ toDevtools } = await import('../../src/frontend/devtools.js'));
  });

  it('tells a panel what was so far, and then what happens, at most ten times a second', () => {
    const panel = startBus();
    panel.connect();
    const events = new Subject<FlowEvent>();
    toDevtools(events, { key: 'embeddings' });
    for (const event of EVENTS.slice(0, 30)) events.next(event);
    vi.advanceTimersByTime(1000);
    expect(panel.seen.map(({ type }) => type)).toEqual(['sluice:announce']);
    panel.hello();
    const [recording] = panel.of('recording');
    expect(recording!.key).toBe('embeddings');
    const model = replay(importRecording(recording!.text));
    expect(model.counters).toEqual(modelOf(EVENTS.slice(0, 30)).counters);
    for (const event of EVENTS.slice(30)) {
      events.next(event);
      vi.advanceTimersByTime(10);
    }
    vi.advanceTimersByTime(100);
    const updates = panel.of('update');
    for (const update of updates) for (const event of update.events) model.add(event);
    expect(model.counters).toEqual(modelOf(EVENTS).counters);
    expect(updates.at(-1)!.counters).toEqual(modelOf(EVENTS).counters);
    expect(updates.length).toBeLessThanOrEqual(Math.ceil((EVENTS.length - 30) / 10) + 1);
    for (const { payload } of panel.seen) expect(JSON.parse(JSON.stringify(payload))).toEqual(payload);
  });

  it('is found by a panel that is opened after the client has given up', () => {
    const panel = startBus();
    const events = new Subject<FlowEvent>();
    toDevtools(events, { key: 'late' });
    for (const event of EVENTS) events.next(event);
    vi.advanceTimersByTime(60_000);
    panel.connect();
    panel.hello();
    expect(panel.of('recording')).toHaveLength(1);
    expect(panel.of('update')).toEqual([]);
  });

  it('leaves its source and the bus when it is told, also between an event and its update', () => {
    const panel = startBus();
    panel.connect();
    const events = new Subject<FlowEvent>();
    const leave = toDevtools(events, { key: 'x' });
    panel.hello();
    events.next(EVENTS[0]!);
    leave();
    leave();
    expect(events.observed).toBe(false);
    vi.advanceTimersByTime(1000);
    panel.hello();
    expect(panel.of('update')).toEqual([]);
    expect(panel.of('recording')).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('answers a panel that says hello to an announcement inside it, once', () => {
    const panel = startBus();
    toDevtools(new Subject<FlowEvent>(), { key: 'x' });
    const target = bus.__TANSTACK_EVENT_TARGET__!;
    target.addEventListener('sluice:announce', () => {
      sayHello(target);
    });
    panel.connect();
    vi.advanceTimersByTime(2000);
    expect(panel.seen.map(({ type }) => type)).toEqual(['sluice:announce', 'sluice:hello', 'sluice:recording']);
  });

  it('keeps several sources apart by their keys', () => {
    const panel = startBus();
    panel.connect();
    const [one, two] = [new Subject<FlowEvent>(), new Subject<FlowEvent>()];
    toDevtools(one, { key: 'one' });
    toDevtools(two, { key: 'two' });
    panel.hello();
    two.next(EVENTS[0]!);
    vi.advanceTimersByTime(200);
    expect(panel.of('recording').map(({ key }) => key)).toEqual(['one', 'two']);
    expect(panel.of('update').map(({ key, events }) => [key, events.length])).toEqual([['two', 1]]);
  });

  it('sends only the known fields of an event', () => {
    const panel = startBus();
    panel.connect();
    const events = new Subject<FlowEvent>();
    toDevtools(events, { key: 'x' });
    events.next(Object.assign({ prompt: 'secret' }, EVENTS[0]!));
    panel.hello();
    events.next(Object.assign({ prompt: 'secret' }, EVENTS[1]!));
    vi.advanceTimersByTime(200);
    expect(panel.of('update')).toHaveLength(1);
    expect(JSON.stringify(panel.seen)).not.toContain('secret');
  });

  it.each([
    ['in production', 'production', true],
    ['under test', 'test', true],
    ['on a server without a bus', 'development', false],
  ])('does nothing %s', (_what, env, hasBus) => {
    const panel = startBus();
    panel.connect();
    if (!hasBus) delete bus.__TANSTACK_EVENT_TARGET__;
    vi.stubEnv('NODE_ENV', env);
    const events = new Subject<FlowEvent>();
    const leave = toDevtools(events, { key: 'x' });
    panel.hello();
    expect(events.observed).toBe(false);
    expect(panel.of('announce')).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
    leave();
  });

  it.each([
    [{}, 'key'],
    [{ key: '' }, 'key'],
    [{ key: 'x', intervall: 3 }, 'intervall'],
    [undefined, 'options'],
  ])('says what is wrong with %j', (options, option) => {
    startBus();
    expect(() => toDevtools(new Subject<FlowEvent>(), options as never)).toThrow(
      expect.toSatisfy((error) => isFlowError(error, 'FLOW_CONFIG_INVALID') && String(error).includes(`\`${option}\``)) as Error,
    );
  });
});

it.each([
  ['production', 600],
  ['development', Infinity],
])('costs a bundle for %s at most %d bytes', async (env, most) => {
  const { outputFiles } = await build({
    entryPoints: ['src/frontend/devtools.ts'],
    absWorkingDir: fileURLToPath(new URL('../..', import.meta.url)),
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    define: { 'process.env.NODE_ENV': JSON.stringify(env) },
  });
  const code = outputFiles[0]!.text;
  expect(code.length).toBeLessThanOrEqual(most);
  expect(code.includes('announce')).toBe(env === 'development');
});
