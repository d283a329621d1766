import type { SluiceInspector } from './inspector-types.js';
import { createPage, MOST_LANES } from './page.js';
import { createPicture } from './picture.js';
import { STYLE } from './style.js';

/** Texts are read by people, and limiters are asked: ten times a second is enough. */
const TEXT_MS = 100;

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

/** @param look - asks limiters how they are */
export function createView(element: SluiceInspector, look: () => void): View {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const still = matchMedia('(prefers-reduced-motion: reduce)');
  const show = (): void => {
    changed(true);
  };
  const page = createPage(element, show);
  const canvas = page.canvas.getContext('2d') as CanvasRenderingContext2D;
  const picture = createPicture(canvas);
  let places = page.places();
  let colours = page.colours();
  let isOnPage = false;
  let isSeen = false;
  let isAskedFor = false;
  let frame = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lastFrameAt = 0;
  let textAt = 0;
  let drawnVersion = 0;

  const resized = new ResizeObserver(show);
  const seen = new IntersectionObserver((entries) => {
    isSeen = entries.at(-1)?.isIntersecting ?? true;
    show();
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
      write();
      show();
    },
    leave: () => {
      isOnPage = isSeen = false;
      resized.disconnect();
      seen.disconnect();
      dark.removeEventListener('change', show);
      document.removeEventListener('visibilitychange', show);
    },
    clear: page.clear,
    changed,
  };

  // ---- the loop: it runs only while something changes -------------------------------------------------------------------

  function changed(isAsked = false): void {
    isAskedFor ||= isAsked;
    if (!isOnPage || frame !== 0 || (element.paused && !isAskedFor)) return;
    if (isSeen && !document.hidden) frame = requestAnimationFrame(draw);
    // Whoever reads or prints the page finds the numbers also where nothing is drawn.
    else again(write);
  }

  function again(act: () => void): void {
    timer ??= setTimeout(() => {
      timer = undefined;
      // It may have been paused since.
      if (!element.paused || isAskedFor) act();
    }, TEXT_MS);
  }

  function draw(now: number): void {
    frame = 0;
    const { paused, model, clock } = element;
    const isNew = model.version !== drawnVersion;
    const dt = Math.min(50, now - lastFrameAt);
    lastFrameAt = now;
    const isAsked = isAskedFor;
    const isDue = isAsked || now >= textAt;
    if (isDue) {
      textAt = now + TEXT_MS;
      write();
    }
    if (isAsked || places.lanes.length < Math.min(MOST_LANES, model.laneParts.length)) layOut();
    // What limiters have said meanwhile is written, and moves nothing.
    drawnVersion = model.version;
    const slots = model.limits.find(({ concurrency }) => concurrency <= 64)?.concurrency ?? 1;
    // What goes on behind a picture that stands still is not to be seen in it.
    const moves = picture(model, places, colours, {
      now,
      dt,
      clock: paused ? model.now : (clock?.() ?? Date.now()),
      isStill: paused || still.matches,
      slots,
    });
    if (paused) return;
    if (moves || isNew) changed();
    else if (!isDue || isBusy()) again(changed);
  }

  /** Does something change without an event? */
  function isBusy(): boolean {
    const { limits, slots } = element.model;
    return slots.some(Boolean) || limits.some(({ rates, queued }) => queued > 0 || rates.some(({ level }) => level < 1));
  }

  function write(): void {
    isAskedFor = false;
    if (!element.paused) look();
    page.show(element);
  }

  function layOut(): void {
    places = page.places();
    colours = page.colours();
    const [width, height] = [places.width, places.height].map((size) => Math.round(size * devicePixelRatio)) as [number, number];
    if (width === page.canvas.width && height === page.canvas.height) return;
    Object.assign(page.canvas, { width, height });
    canvas.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  }
}
