import { Subject } from 'rxjs';
import { showInspector } from '../../../examples/devtools-panel.js';
import type { FlowEvent } from '../../../operators/index.js';
import { toDevtools } from '../../../src/frontend/devtools.js';

// As much of TanStack's event bus as clients see in a page: it answers each connection, and hands every event to its listeners.
const seen: { readonly type: string; readonly payload: unknown }[] = [];
window.addEventListener('tanstack-connect', () => window.dispatchEvent(new CustomEvent('tanstack-connect-success')));
window.addEventListener('tanstack-dispatch-event', (event) => {
  const { detail } = event as CustomEvent<{ readonly type: string; readonly payload: unknown }>;
  seen.push(detail);
  window.dispatchEvent(new CustomEvent(detail.type, { detail }));
});

const events = new Subject<FlowEvent>();

declare global {
  var devtools: {
    readonly seen: typeof seen;
    isObserved(): boolean;
    tell(events: readonly FlowEvent[]): void;
    start(): () => void;
    openPanel(): void;
  };
}

globalThis.devtools = {
  seen,
  isObserved: () => events.observed,
  tell: (told) => {
    for (const event of told) events.next(event);
  },
  start: () => toDevtools(events, { key: 'embeddings' }),
  openPanel: () => {
    const panel = document.createElement('section');
    document.body.append(panel);
    showInspector(panel, 'embeddings');
  },
};
