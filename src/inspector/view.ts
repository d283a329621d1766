import { time } from './dom.js';
import type { SluiceInspector } from './inspector-types.js';
import { MOST_LANES, Page } from './page.js';
import type { Colours, Places } from './picture.js';
import { createPicture } from './picture.js';
import type { Player } from './player.js';
import { STYLE } from './style.js';

/** Texts are read by people: ten times a second is enough. */
const TEXT_MS = 100;
/** While calls are under way and nothing else moves. */
const SLOW_MS = 100;
/** How often the numbers are written while nobody sees the picture. */
const UNSEEN_MS = 1000;
/** How often limiters are asked. */
const LOOK_MS = 250;

/** What an inspector looks like. */
export interface View {
  /** It is on a page from now on. */
  watch(): void;
  leave(): void;
  /** A new source: nothing of the old one stays. */
  clear(): void;
  /** @param isAsked - whether somebody wants to see it even though it is paused */
  changed(isAsked?: boolean): void;
}

/**
 * @param playerOf - the player of a recording
 * @param look - asks limiters how they are
 */
export function createView(element: SluiceInspector, playerOf: () => Player | undefined, look: () => void): View {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const still = matchMedia('(prefers-reduced-motion: reduce)');
  const page = new Page({
    pause: () => {
      if (element.paused) element.resume();
      else element.pause();
    },
    step: () => element.step(),
    save: () => {
      const href = URL.createObjectURL(new Blob([element.export()], { type: 'application/json' }));
      Object.assign(document.createElement('a'), { href, download: 'sluice-recording.json' }).click();
      URL.revokeObjectURL(href);
    },
    open: (text) => {
      try {
        element.import(text);
      } catch (error) {
        page.fault(`This is no recording: ${(error as Error).message}`);
      }
    },
    seek: (ms) => {
      element.pause();
      element.seek(ms);
    },
    look: () => {
      changed(true);
    },
  });
  const canvas = page.canvas.getContext('2d') as CanvasRenderingContext2D;
  const picture = createPicture(canvas);
  let places: Places | undefined;
  let colours: Colours | undefined;
  let isOnPage = false;
  let isSeen = false;
  let frame = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lastFrameAt = 0;
  let textAt = 0;
  let lookAt = 0;
  let drawnVersion = -1;
  let textVersion = -1;

  const show = (): void => {
    places = colours = undefined;
    changed(true);
  };
  const resized = new ResizeObserver(show);
  const seen = new IntersectionObserver((entries) => {
    isSeen = entries.at(-1)?.isIntersecting ?? true;
    changed(true);
  });

  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' });
  root.adoptedStyleSheets = [sheet];
  root.replaceChildren(page.root);
  return {
    watch: () => {
      isOnPage = true;
      resized.observe(element);
      seen.observe(element);
      dark.addEventListener('change', show);
      document.addEventListener('visibilitychange', show);
      write(element.model.now);
      changed(true);
    },
    leave: () => {
      isOnPage = isSeen = false;
      resized.disconnect();
      seen.disconnect();
      dark.removeEventListener('change', show);
      document.removeEventListener('visibilitychange', show);
      cancelAnimationFrame(frame);
      again();
      frame = lastFrameAt = 0;
    },
    clear: () => {
      page.clear();
    },
    changed,
  };

  // ---- the loop: it runs only while something changes -------------------------------------------------------------------

  function changed(isAsked = false): void {
    if (isAsked) drawnVersion = -1;
    if (element.paused) lastFrameAt = 0;
    if (!isOnPage || (element.paused && !isAsked) || frame !== 0) return;
    if (isHidden()) {
      lastFrameAt = 0;
      // Whoever reads or prints the page finds the numbers also where nothing is drawn.
      timer ??= setTimeout(() => {
        timer = undefined;
        look();
        write(element.model.now);
      }, UNSEEN_MS);
      return;
    }
    again();
    frame = requestAnimationFrame(draw);
  }

  function isHidden(): boolean {
    return !isSeen || document.hidden;
  }

  /** In a while, or not at all. */
  function again(afterMs?: number): void {
    clearTimeout(timer);
    timer =
      afterMs === undefined
        ? undefined
        : setTimeout(() => {
            timer = undefined;
            changed();
          }, afterMs);
  }

  function draw(now: number): void {
    frame = 0;
    if (isHidden()) {
      changed();
      return;
    }
    const player = playerOf();
    const { paused } = element;
    const dt = lastFrameAt === 0 ? 16 : now - lastFrameAt;
    lastFrameAt = now;
    if (!paused) {
      player?.advance(dt * element.speed);
      if (now >= lookAt) {
        lookAt = now + LOOK_MS;
        look();
      }
    }
    const { model } = element;
    const clock = player || paused ? model.now : clockNow();
    const isNew = model.version !== drawnVersion;
    if (drawnVersion === -1 || now >= textAt) {
      textAt = now + TEXT_MS;
      write(clock);
      if (places?.lanes.length !== Math.max(1, Math.min(MOST_LANES, model.laneParts.length))) places = undefined;
    }
    drawnVersion = model.version;
    places ??= layOut();
    colours ??= page.colours();
    // What goes on behind a picture that stands still is not to be seen in it.
    const stands = paused && !player;
    const slots = model.limits.find(({ concurrency }) => concurrency <= 64)?.concurrency ?? 1;
    const moves = picture(model, places, colours, { now, dt, clock, isStill: stands || still.matches, slots });
    if (!stands) goOn(moves || isNew);
  }

  /** What comes next: a frame, a look in a while, or nothing until something happens. */
  function goOn(moves: boolean): void {
    const player = playerOf();
    const { model, paused } = element;
    if (moves || (player && !player.isOver && !paused)) {
      const version = drawnVersion;
      changed(paused);
      drawnVersion = version;
      return;
    }
    lastFrameAt = 0;
    const isShort = model.limits.some(({ rates, queued }) => queued > 0 || rates.some(({ level }) => level < 1));
    const isBusy = isShort || model.slots.some(Boolean) || model.pausedUntil > clockNow();
    if (!paused && (textVersion !== model.version || (isBusy && !player))) again(SLOW_MS);
  }

  function clockNow(): number {
    return element.clock?.() ?? Date.now();
  }

  function write(clock: number): void {
    const { model, heading, paused } = element;
    const { positionMs, lengthMs } = playerOf() ?? {};
    textVersion = model.version;
    page.show(model, { heading, status: statusOf(), isPaused: paused, clock, positionMs, lengthMs });
  }

  function layOut(): Places {
    const found = page.places();
    const ratio = devicePixelRatio || 1;
    page.canvas.width = Math.round(found.width * ratio);
    page.canvas.height = Math.round(found.height * ratio);
    canvas.setTransform(ratio, 0, 0, ratio, 0, 0);
    return found;
  }

  function statusOf(): string {
    const player = playerOf();
    if (element.source === undefined) return 'no source yet';
    if (player) {
      const what = element.paused ? 'paused' : player.isOver ? 'recording, at its end' : 'recording';
      return `${what}: ${time(player.positionMs)} of ${time(player.lengthMs)}`;
    }
    if (element.paused) return 'paused: the pipeline goes on behind the picture';
    return element.model.version === 0 ? 'live: waiting for the first event' : 'live';
  }
}
