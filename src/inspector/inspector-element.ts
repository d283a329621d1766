import type { FlowModelOptions } from './flow-model.js';
import { FlowModel } from './flow-model.js';
import type { SluiceInspector } from './inspector-types.js';
import { Player } from './player.js';
import { exportRecording, importRecording, isRecording } from './recording.js';
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
  declare speed: number;
  #source: InspectorSource | undefined;
  #model = new FlowModel();
  #player: Player | undefined;
  #connection: Connection | undefined;
  #view: View | undefined;
  #loading: Promise<void> | undefined;
  #isPaused = false;
  #isOnPage = false;

  static get observedAttributes(): readonly string[] {
    return ['heading'];
  }

  constructor() {
    super();
    this.speed = (this as Partial<SluiceInspector>).speed ?? 1;
  }

  attributeChangedCallback(): void {
    this.#view?.changed(true);
  }

  get heading(): string {
    return this.getAttribute('heading') ?? 'Flow';
  }

  set heading(text: string) {
    this.setAttribute('heading', text);
  }

  get source(): InspectorSource | undefined {
    return this.#source;
  }

  set source(source: InspectorSource | undefined) {
    this.#disconnect();
    // Plain JavaScript may say null.
    this.#source = source ?? undefined;
    this.#player = isRecording(source) ? new Player(source, this.#options) : undefined;
    if (this.hasAttribute('still')) this.#player?.seek(Infinity);
    this.#model = new FlowModel(this.#options);
    this.#view?.clear();
    if (this.#isOnPage) this.#connect();
  }

  get model(): FlowModel {
    return this.#player?.model ?? this.#model;
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

  step(): boolean {
    this.pause();
    const hasMore = this.#player?.step() ?? true;
    this.#view?.changed(true);
    return hasMore;
  }

  seek(ms: number): void {
    this.#player?.seek(ms);
    this.#view?.changed(true);
  }

  export(): string {
    return exportRecording(this.model, this.heading);
  }

  import(text: string): void {
    this.source = importRecording(text);
    this.resume();
    this.dispatchEvent(new CustomEvent('import'));
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
    this.#load();
  }

  disconnectedCallback(): void {
    queueMicrotask(() => {
      if (this.isConnected || !this.#isOnPage) return;
      this.#isOnPage = false;
      this.#view?.leave();
      this.#disconnect();
    });
  }

  get #options(): FlowModelOptions {
    return { lanes: this.lanes, maxBatchSize: this.maxBatchSize };
  }

  #load(): void {
    this.#loading ??= import('./view.js').then(({ createView }) => {
      this.#view = createView(
        this,
        () => this.#player,
        () => this.#connection?.look(),
      );
    });
    this.#loading.then(
      () => {
        if (this.#isOnPage) this.#view?.watch();
      },
      (error: unknown) => {
        this.#loading = undefined;
        (this.shadowRoot ?? this.attachShadow({ mode: 'open' })).textContent = `The inspector could not be loaded: ${String(error)}`;
      },
    );
  }

  #connect(): void {
    if (this.#source !== undefined && this.#player === undefined) {
      // What has happened meanwhile is not known: it begins anew.
      this.#model = new FlowModel(this.#options);
      this.#connection = connectSource(this.#source, this.#model, () => this.#view?.changed());
    }
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
    this.dispatchEvent(new CustomEvent(isPaused ? 'pause' : 'resume'));
  }
}
