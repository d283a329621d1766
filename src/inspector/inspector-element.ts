import { exportRecording } from './export-recording.js';
import { FlowModel } from './flow-model.js';
import type { SluiceInspector } from './inspector-types.js';
import type { Connection, InspectorSource } from './source.js';
import { connectSource } from './source.js';
import type { View } from './view.js';

/** On a server there are no elements, and this file may be loaded all the same. */
const Base = (globalThis as { HTMLElement?: typeof HTMLElement }).HTMLElement ?? (Object as unknown as typeof HTMLElement);

/** `<sluice-inspector>`: shows what its `source` does. What it looks like is loaded when it is first on a page. */
export class InspectorElement extends Base implements SluiceInspector {
  // No initializers: what was set before the element was defined stays.
  declare lanes: readonly string[] | undefined;
  declare maxBatchSize: number | undefined;
  declare clock: (() => number) | undefined;
  #source: InspectorSource | undefined;
  #model = new FlowModel();
  #connection: Connection | undefined;
  #view: View | undefined;
  #isPaused = false;
  #isOnPage = false;

  get heading(): string {
    return this.getAttribute('heading') ?? 'Flow';
  }

  set heading(text: string) {
    this.setAttribute('heading', text);
    this.#view?.changed(true);
  }

  get source(): InspectorSource | undefined {
    return this.#source;
  }

  set source(source: InspectorSource | undefined) {
    this.#disconnect();
    // Plain JavaScript may say null.
    this.#source = source ?? undefined;
    this.#view?.clear();
    this.#connect();
  }

  get model(): FlowModel {
    return this.#model;
  }

  get paused(): boolean {
    return this.#isPaused;
  }

  pause(): void {
    this.#pauseOrNot(true);
  }

  resume(): void {
    this.#pauseOrNot(false);
  }

  export(): string {
    return exportRecording(this.#model, this.heading);
  }

  connectedCallback(): void {
    const own = this as Record<string, unknown>;
    for (const name of ['heading', 'source']) {
      if (!Object.hasOwn(own, name)) continue;
      const given = own[name];
      Reflect.deleteProperty(own, name);
      own[name] = given;
    }
    // It was only moved to another place.
    if (this.#isOnPage) return;
    this.#isOnPage = true;
    this.#connect();
    void this.#load();
  }

  disconnectedCallback(): void {
    queueMicrotask(() => {
      if (this.isConnected || !this.#isOnPage) return;
      this.#isOnPage = false;
      this.#view?.leave();
      this.#disconnect();
    });
  }

  async #load(): Promise<void> {
    try {
      const { createView } = await import('./view.js');
      this.#view ??= createView(this, () => this.#connection?.look());
      if (this.#isOnPage) this.#view.watch();
    } catch (error) {
      (this.shadowRoot ?? this.attachShadow({ mode: 'open' })).textContent = String(error);
    }
  }

  /** What has happened before is not known: it begins anew. */
  #connect(): void {
    this.#model = new FlowModel(this);
    if (this.#isOnPage && this.#source !== undefined)
      this.#connection = connectSource(this.#source, this.#model, (isAsked) => this.#view?.changed(isAsked));
    this.#view?.changed(true);
  }

  #disconnect(): void {
    this.#connection?.leave();
    this.#connection = undefined;
  }

  #pauseOrNot(isPaused: boolean): void {
    if (this.#isPaused === isPaused) return;
    this.#isPaused = isPaused;
    this.#view?.changed(true);
    this.dispatchEvent(new Event(isPaused ? 'pause' : 'resume'));
  }
}
