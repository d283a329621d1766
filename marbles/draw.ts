import { renderSvg } from './render-svg.js';
import { renderText } from './render-text.js';
import { record } from './run.js';
import type { MarblePicture } from './spec.js';
import { specOf } from './spec.js';

/**
 * Runs a pipeline in virtual time and draws what happened, as text. See `docs/testing.md` for how to read it.
 *
 * @stable
 * @example
 * ```ts
 * import { batchMap } from 'sluice/operators';
 * import { draw, fakeProvider } from 'sluice/marbles';
 * import { map } from 'rxjs';
 *
 * const provider = fakeProvider({ answer: (text: string) => text.toUpperCase(), latencyMs: 4 });
 * const drawing = draw({
 *   label: 'batchMap(model, { concurrency: 1 })',
 *   inputs: { agent: '-a-bc-----|' },
 *   build: ({ input, watch }) =>
 *     input('agent').pipe(
 *       batchMap((texts, call) => watch(texts.join(''), provider.work(texts, call)), { concurrency: 1 }),
 *       map((settled) => (settled.status === 'fulfilled' ? settled.value : 'x')),
 *     ),
 * });
 * drawing.split('\n')[1]; // => '        batchMap(model, { concurrency: 1 })'
 * ```
 */
export function draw(picture: MarblePicture): string {
  const spec = specOf(picture);
  return renderText(spec, record(spec));
}

/**
 * Runs a pipeline in virtual time and draws what happened, as an SVG image for light and dark pages.
 *
 * @stable
 * @example
 * ```ts
 * import { drawSvg } from 'sluice/marbles';
 *
 * drawSvg({ inputs: { source: '-a|' }, build: ({ input }) => input('source') }).startsWith('<svg '); // => true
 * ```
 */
export function drawSvg(picture: MarblePicture): string {
  const spec = specOf(picture);
  return renderSvg(spec, record(spec));
}
