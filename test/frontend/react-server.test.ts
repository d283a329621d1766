import { createElement as h, Suspense, use } from 'react';
import { renderToReadableStream, renderToString } from 'react-dom/server';
import { Observable, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { toStore } from '../../operators/index.js';
import { useFlow, useFlowStats, useFlowValue } from '../../src/frontend/react.js';
import { createMetrics } from '../../src/metrics/index.js';

/** A server must not start a run, because nothing there would end it. */
const untouched = new Observable<string>(() => {
  throw new Error('the server subscribed');
});

describe.each(['sync', 'concurrent'] as const)('on a server, updates: %s', (updates) => {
  it('useFlowValue renders what is selected of the initial value, whatever the snapshot is', () => {
    const store = toStore(of('of another request'), 'initial');
    store.subscribe(() => undefined)();
    expect(store.getSnapshot()).toBe('of another request');
    const View = () => useFlowValue(store, (text) => text.toUpperCase(), undefined, { updates });
    expect(renderToString(h(View))).toBe('INITIAL');
  });

  it('useFlow renders the initial value, and subscribes to nothing', () => {
    const View = () => useFlow(() => untouched, 'initial', { updates });
    expect(renderToString(h(View))).toBe('initial');
  });

  it('streams what was suspended when it is ready', async () => {
    const data = new Promise<string>((resolve) => setTimeout(resolve, 5, 'data'));
    const View = () => `${use(data)} ${useFlow(() => untouched, 'initial', { updates })}`;
    const stream = await renderToReadableStream(h(Suspense, { fallback: 'waiting' }, h(View)));
    expect(await new Response(stream).text()).toContain('data initial');
  });

  it('what select throws is thrown by the render', () => {
    const store = toStore(untouched, 'initial');
    const View = () =>
      useFlowValue(
        store,
        () => {
          throw new Error('no');
        },
        undefined,
        { updates },
      );
    expect(() => renderToString(h(View))).toThrow('no');
  });
});

it('useFlowStats renders the numbers of the moment', () => {
  const metrics = createMetrics();
  const View = () => `${useFlowStats(metrics).queued} wait`;
  expect(renderToString(h(View))).toBe('0 wait');
});
