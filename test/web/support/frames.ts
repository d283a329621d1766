import type { WebPage } from './browser.js';

/** Frames asked for within this time. */
export const framesAsked = ({ page }: WebPage, ms: number): Promise<number> =>
  page.evaluate(async (wait) => {
    const ask = globalThis.requestAnimationFrame;
    let count = 0;
    globalThis.requestAnimationFrame = (draw) => {
      count++;
      return ask(draw);
    };
    await new Promise((resolve) => setTimeout(resolve, wait));
    globalThis.requestAnimationFrame = ask;
    return count;
  }, ms);
