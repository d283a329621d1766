import type { FlowModel } from './flow-model.js';
import type { InspectorSource } from './source.js';

/**
 * `<sluice-inspector>`. Tells `pause` and `resume` as events.
 * @beta
 */
export interface SluiceInspector extends HTMLElement {
  /** What is shown. A new one begins anew. @defaultValue undefined: nothing */
  source: InspectorSource | undefined;
  /** Stands above; the attribute says the same. @defaultValue 'Flow' */
  heading: string;
  /** Names of lanes, most urgent first; for the next source. @defaultValue `user`, `normal`, …, then the others as they come */
  lanes: readonly string[] | undefined;
  /** Most items in a batch; for the next source. @defaultValue what the first full batch has */
  maxBatchSize: number | undefined;
  /** The time of the source, in ms. @defaultValue the system's */
  clock: (() => number) | undefined;
  /** What is known of the source; another one with every source. */
  readonly model: FlowModel;
  readonly paused: boolean;
  /** The picture stands still. What is live goes on behind it, and nothing is lost. */
  pause(): void;
  resume(): void;
  /** The last 2,000 events, and all that is open, as JSON text, which `importRecording` of `sluice/inspector` opens again. */
  export(): string;
}

declare global {
  // For who compiles without the types of a browser.
  // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- merges with the browser's own
  interface HTMLElement {}
}
