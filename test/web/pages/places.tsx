import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Subject } from 'rxjs';
import type { FlowEvent } from '../../../operators/index.js';
import { defineInspector, type SluiceInspector } from '../../../src/inspector/index.js';

declare module 'react' {
  // React has no other place for elements of one's own.
  // eslint-disable-next-line @typescript-eslint/no-namespace
  namespace JSX {
    interface IntrinsicElements {
      'sluice-inspector': { readonly source: Subject<FlowEvent>; readonly heading?: string; readonly key?: string };
    }
  }
}

const root = document.querySelector('#root') as HTMLElement;

declare global {
  var places: {
    define(): void;
    source(): Subject<FlowEvent>;
    /** Adds an element that shows the source; before `define` it is not one yet. */
    add(source: Subject<FlowEvent>): SluiceInspector;
    react(...sources: readonly Subject<FlowEvent>[]): () => void;
    tell(source: Subject<FlowEvent>, events: readonly unknown[]): void;
  };
}

globalThis.places = {
  define: defineInspector,
  source: () => new Subject(),
  add: (source) => {
    const element = document.createElement('sluice-inspector') as SluiceInspector;
    element.source = source;
    root.append(element);
    return element;
  },
  react: (...sources) => {
    const app = createRoot(root);
    app.render(
      <StrictMode>
        {sources.map((source, i) => (
          <sluice-inspector key={String(i)} source={source} heading={`number ${String(i)}`} />
        ))}
      </StrictMode>,
    );
    return () => {
      app.unmount();
    };
  },
  tell: (source, events) => {
    for (const event of events) source.next(event as FlowEvent);
  },
};
