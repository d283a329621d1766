import { EventClient } from '@tanstack/devtools-event-client';
import { Subject } from 'rxjs';
import type { FlowEvent } from '../operators/index.js';
import type { DevtoolsEvents } from '../src/frontend/devtools.js';
import { defineInspector, importRecording, recorded, type SluiceInspector } from '../src/inspector/index.js';

/** For `render` of a plugin of TanStack Devtools. */
export function showInspector(panel: HTMLElement, key: string): void {
  defineInspector();
  const inspector = document.createElement('sluice-inspector') as SluiceInspector;
  panel.append(inspector);
  const bus = new EventClient<DevtoolsEvents>({ pluginId: 'sluice' });
  let live = new Subject<FlowEvent>();
  bus.on('recording', ({ payload }) => {
    if (payload.key !== key) return;
    live = new Subject();
    inspector.source = [recorded(importRecording(payload.text)), live];
  });
  bus.on('update', ({ payload }) => {
    if (payload.key === key) for (const event of payload.events) live.next(event);
  });
  bus.on('announce', () => {
    bus.emit('hello', {});
  });
  bus.emit('hello', {});
}
