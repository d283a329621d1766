import { InspectorElement } from './inspector-element.js';

/**
 * Registers `<sluice-inspector>`, which shows a pipeline at work: items in lanes, batches, calls, results, limits, and trees of what was cut up or sent
 * again. Nothing happens before this is called. On a server, and when the name is taken, it does nothing.
 *
 * Set `source` to what is to be shown; see `InspectorSource`. The element holds the last 2,000 events and shows numbers and names only. It leaves its source when it is taken
 * off the page, draws only while something changes and somebody can see it, and keeps still for who asks for reduced motion.
 *
 * @beta
 * @param name - of the element. @defaultValue 'sluice-inspector'
 * @example
 * ```ts
 * import { defineInspector } from 'sluice/inspector';
 *
 * defineInspector();
 * typeof customElements; // => 'undefined'
 * ```
 */
export function defineInspector(name = 'sluice-inspector'): void {
  const { customElements: registry } = globalThis as { customElements?: CustomElementRegistry };
  // A name may stand for another class only.
  if (registry !== undefined && registry.get(name) === undefined) registry.define(name, class extends InspectorElement {});
}
