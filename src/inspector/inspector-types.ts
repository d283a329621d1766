import type { FlowModel } from './flow-model.js';
import type { InspectorSource } from './source.js';

/** `<sluice-inspector>`. Tells `pause`, `resume` and `import` as events. */
export interface SluiceInspector extends HTMLElement {
  /** What is shown. A new one begins anew. @defaultValue undefined: nothing */
  source: InspectorSource | undefined;
  /** Stands above; the attribute says the same. @defaultValue 'Flow' */
  heading: string;
  /** Names of lanes, most urgent first; for the next source. @defaultValue `P0`, `P1`, …, then the others as they come */
  lanes: readonly string[] | undefined;
  /** Most items in a batch; for the next source. @defaultValue what the first full batch has */
  maxBatchSize: number | undefined;
  /** The time of the source, in ms. @defaultValue the system's */
  clock: (() => number) | undefined;
  /** Of a recording: how much faster than it was. @defaultValue 1 */
  speed: number;
  /** What is known of the source; another one with every source. */
  readonly model: FlowModel;
  readonly paused: boolean;
  /** The picture stands still. What is live goes on behind it, and nothing is lost. */
  pause(): void;
  resume(): void;
  /** Pauses, and shows the next moment of a recording, or how a live source is now. False at the end of a recording. */
  step(): boolean;
  /** To a time of a recording, in ms since its beginning; Infinity is its end. */
  seek(ms: number): void;
  /** The last 2,000 events, and all that is open, as JSON text, which `import` opens again. */
  export(): string;
  /** Shows a recording. @throws RecordingError when the text is none */
  import(text: string): void;
}

declare global {
  // For who compiles without the types of a browser.
  // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- merges with the browser's own
  interface HTMLElement {}
}
