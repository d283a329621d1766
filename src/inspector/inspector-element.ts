import { time } from './dom.js';
import type { FlowModelOptions } from './flow-model.js';
import { FlowModel } from './flow-model.js';
import type { SluiceInspector } from './inspector-types.js';
import { MOST_LANES, Page } from './page.js';
import type { Colours, Places } from './picture.js';
import { Picture } from './picture.js';
import { Player } from './player.js';
import { exportRecording, importRecording, isRecording } from './recording.js';
import type { Connection, InspectorSource } from './source.js';
import { connectSource } from './source.js';
import { STYLE } from './style.js';

/** Texts are read by people: ten times a second is enough. */
const TEXT_MS = 100;
/** While calls are under way and nothing else moves. */
const SLOW_MS = 100;
/** How often the numbers are written while nobody sees the picture. */
const UNSEEN_MS = 1000;
/** How often limiters are asked. */
const LOOK_MS = 250;

/** On a server there are no elements, and this file may be loaded all the same. */
const Base = (globalThis as { HTMLElement?: typeof HTMLElement }).HTMLElement ?? (Object as unknown as typeof HTMLElement);

/** `<sluice-inspector>`: shows what its `source` does. */
export class InspectorElement extends Base implements SluiceInspector {
  lanes: readonly string[] | undefined = before(this, 'lanes');
  maxBatchSize: number | undefined = before(this, 'maxBatchSize');
  clock: (() => number) | undefined = before(this, 'clock');
  speed: number = before(this, 'speed') ?? 1;
  #source: InspectorSource | undefined = undefined;
  #model = new FlowModel();
  #player: Player | undefined = undefined;
  #connection: Connection | undefined = undefined;
  #page: Page | undefined = undefined;
  readonly #picture = new Picture();
  #canvas: CanvasRenderingContext2D | undefined = undefined;
  #places: Places | undefined = undefined;
  #colours: Colours | undefined = undefined;
  #isPaused = false;
  #isSeen = false;
  #isOnPage = false;
  #isStill: () => boolean = () => false;
  #stopWatching: () => void = () => undefined;
  #frame = 0;
  #timer: ReturnType<typeof setTimeout> | undefined = undefined;
  #lastFrameAt = 0;
  #textAt = 0;
  #lookAt = 0;
  #drawnVersion = -1;
  #textVersion = -1;

  static get observedAttributes(): readonly string[] {
    return ['heading'];
  }

  attributeChangedCallback(): void {
    this.#changed();
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
    this.#source = source;
    this.#player = isRecording(source) ? new Player(source, this.#options) : undefined;
    if (this.hasAttribute('still')) this.#player?.seek(Infinity);
    this.#model = this.#player?.model ?? new FlowModel(this.#options);
    this.#page?.clear();
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
    this.#changed(true);
    return hasMore;
  }

  seek(ms: number): void {
    this.#player?.seek(ms);
    this.#changed(true);
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
    for (const name of ['heading', 'source'] as const) {
      const given = Object.getOwnPropertyDescriptor(this, name);
      if (given === undefined) continue;
      Reflect.deleteProperty(this, name);
      Object.assign(this, { [name]: given.value as unknown });
    }
    // It was only moved to another place.
    if (this.#isOnPage) return;
    this.#isOnPage = true;
    this.#build();
    this.#watch();
    this.#connect();
  }

  disconnectedCallback(): void {
    queueMicrotask(() => {
      if (this.isConnected || !this.#isOnPage) return;
      this.#isOnPage = false;
      this.#isSeen = false;
      this.#stopWatching();
      this.#stop();
      this.#disconnect();
    });
  }

  get #options(): FlowModelOptions {
    return { lanes: this.lanes, maxBatchSize: this.maxBatchSize };
  }

  // ---- the source -----------------------------------------------------------------------------------------------------

  #connect(): void {
    if (this.#source !== undefined && this.#player === undefined) {
      // What has happened meanwhile is not known: it begins anew.
      this.#model = new FlowModel(this.#options);
      this.#connection = connectSource(this.#source, this.#model, () => {
        this.#changed();
      });
    }
    if (this.#page) this.#write(this.#page, this.model.now);
    this.#changed(true);
  }

  #disconnect(): void {
    this.#connection?.leave();
    this.#connection = undefined;
  }

  // ---- the page -------------------------------------------------------------------------------------------------------

  #build(): void {
    if (this.#page !== undefined) return;
    const root = this.attachShadow({ mode: 'open' });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    const page = new Page({
      pause: () => {
        this.#pauseOrNot(!this.#isPaused);
      },
      step: () => this.step(),
      save: () => {
        this.#save();
      },
      open: (text) => {
        try {
          this.import(text);
        } catch (error) {
          page.fault(`This is no recording: ${(error as Error).message}`);
        }
      },
      seek: (ms) => {
        this.pause();
        this.seek(ms);
      },
      table: () => {
        this.#changed(true);
      },
    });
    this.#page = page;
    page.fault('');
    root.append(page.root);
    this.#canvas = page.canvas.getContext('2d') ?? undefined;
  }

  #save(): void {
    const url = URL.createObjectURL(new Blob([this.export()], { type: 'application/json' }));
    const link = document.createElement('a');
    link.href = url;
    link.download = 'sluice-recording.json';
    link.click();
    URL.revokeObjectURL(url);
  }

  /** Sizes, colours, and whether anybody looks. */
  #watch(): void {
    const resized = new ResizeObserver(() => {
      this.#measure();
    });
    const seen = new IntersectionObserver(([entry]) => {
      this.#isSeen = entry?.isIntersecting ?? true;
      this.#changed(true);
    });
    const show = (): void => {
      this.#colours = undefined;
      this.#changed(true);
    };
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const still = matchMedia('(prefers-reduced-motion: reduce)');
    this.#isStill = () => still.matches;
    resized.observe(this);
    seen.observe(this);
    dark.addEventListener('change', show);
    document.addEventListener('visibilitychange', show);
    this.#stopWatching = () => {
      resized.disconnect();
      seen.disconnect();
      dark.removeEventListener('change', show);
      document.removeEventListener('visibilitychange', show);
    };
  }

  #measure(): void {
    this.#places = undefined;
    this.#colours = undefined;
    this.#changed(true);
  }

  #pauseOrNot(isPaused: boolean): void {
    if (this.#isPaused === isPaused) return;
    this.#isPaused = isPaused;
    this.#lastFrameAt = 0;
    this.#changed(true);
    this.dispatchEvent(new CustomEvent(isPaused ? 'pause' : 'resume'));
  }

  // ---- the loop: it runs only while something changes -------------------------------------------------------------------

  /** @param isAsked whether somebody wants to see it even though it is paused */
  #changed(isAsked = false): void {
    if (isAsked) this.#drawnVersion = -1;
    if (!this.#isOnPage || (this.#isPaused && !isAsked) || this.#frame !== 0) return;
    if (!this.#isSeen || document.hidden) {
      this.#lastFrameAt = 0;
      // Whoever reads or prints the page finds the numbers also where nothing is drawn.
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        this.#connection?.look();
        if (this.#page) this.#write(this.#page, this.model.now);
      }, UNSEEN_MS);
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#frame = requestAnimationFrame((now) => {
      this.#frame = 0;
      this.#draw(now);
    });
  }

  #stop(): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#frame = 0;
    this.#lastFrameAt = 0;
  }

  #draw(now: number): void {
    const page = this.#page;
    const canvas = this.#canvas;
    if (page === undefined || canvas === undefined) return;
    if (!this.#isSeen || document.hidden) {
      this.#changed();
      return;
    }
    const dt = this.#lastFrameAt === 0 ? 16 : now - this.#lastFrameAt;
    this.#lastFrameAt = now;
    const player = this.#player;
    if (!this.#isPaused) {
      player?.advance(dt * this.speed);
      if (now >= this.#lookAt) {
        this.#lookAt = now + LOOK_MS;
        this.#connection?.look();
      }
    }
    const { model } = this;
    const clock = player || this.#isPaused ? model.now : (this.clock?.() ?? Date.now());
    const isNew = model.version !== this.#drawnVersion;
    if (this.#drawnVersion === -1 || now >= this.#textAt) {
      this.#textAt = now + TEXT_MS;
      const lanes = this.#places?.lanes.length;
      this.#write(page, clock);
      if (lanes !== undefined && lanes !== Math.max(1, Math.min(MOST_LANES, model.laneParts.length))) this.#places = undefined;
    }
    this.#drawnVersion = model.version;
    this.#places ??= this.#layOut(page, canvas);
    this.#colours ??= page.colours();
    // What goes on behind a picture that stands still is not to be seen in it.
    const stands = this.#isPaused && player === undefined;
    const isStill = stands || this.#isStill();
    const known = model.limits.find(({ concurrency }) => concurrency <= 64);
    const moves = this.#picture.draw(canvas, model, this.#places, this.#colours, {
      now,
      dt,
      clock,
      isStill,
      slots: known?.concurrency ?? 1,
    });
    if (!stands) this.#goOn(moves || isNew);
  }

  /** What comes next: a frame, a look in a while, or nothing until something happens. */
  #goOn(moves: boolean): void {
    const isPlaying = this.#player !== undefined && !this.#player.isOver && !this.#isPaused;
    if (moves || isPlaying) {
      this.#changed(this.#isPaused);
      return;
    }
    this.#lastFrameAt = 0;
    const { model } = this;
    const isWritten = this.#textVersion === model.version;
    const isShort = model.limits.some(({ rates, queued }) => queued > 0 || rates.some(({ level }) => level < 1));
    const isBusy = isShort || model.slots.some((call) => call !== undefined) || model.pausedUntil > (this.clock?.() ?? Date.now());
    if (this.#isPaused || (isWritten && (!isBusy || this.#player !== undefined))) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#changed();
    }, SLOW_MS);
  }

  #write(page: Page, clock: number): void {
    const { model, heading } = this;
    const player = this.#player;
    this.#textVersion = model.version;
    const time = player && { positionMs: player.positionMs, lengthMs: player.lengthMs };
    page.show(model, { heading, status: this.#status(), isPaused: this.#isPaused, clock, ...time });
  }

  #layOut(page: Page, canvas: CanvasRenderingContext2D): Places {
    const places = page.places();
    const ratio = devicePixelRatio || 1;
    page.canvas.width = Math.round(places.width * ratio);
    page.canvas.height = Math.round(places.height * ratio);
    canvas.setTransform(ratio, 0, 0, ratio, 0, 0);
    return places;
  }

  #status(): string {
    const player = this.#player;
    if (this.#source === undefined) return 'no source yet';
    if (player)
      return `${this.#isPaused ? 'paused' : player.isOver ? 'recording, at its end' : 'recording'}: ${time(player.positionMs)} of ${time(player.lengthMs)}`;
    if (this.#isPaused) return 'paused: the pipeline goes on behind the picture';
    return this.model.version === 0 ? 'live: waiting for the first event' : 'live';
  }
}

/** What was set before the element was defined. */
function before<K extends 'lanes' | 'maxBatchSize' | 'clock' | 'speed'>(element: SluiceInspector, name: K): SluiceInspector[K] | undefined {
  return (element as Partial<SluiceInspector>)[name];
}
