import type { SluiceInspector } from '../../../src/inspector/index.js';
import type { Side } from '../engine/sides.js';
import { h } from './dom.js';
import { SIDE_NAMES } from './numbers.js';

const ABOUT: Readonly<Record<Side, string>> = {
  plain: 'the recipe as people write it',
  sluice: 'the operators of this package',
};

export interface BoardView {
  readonly element: HTMLElement;
  readonly inspector: SluiceInspector;
  /** The pipeline as it is written. */
  readonly code: HTMLElement;
}

/** A picture, once pictures are defined. */
export function inspectorElement(): SluiceInspector {
  const Inspector = customElements.get('sluice-inspector') as new () => SluiceInspector;
  return new Inspector();
}

/** One pipeline: what it is, the picture of it, its code. */
export function boardView(side: Side, actions: readonly HTMLElement[]): BoardView {
  const inspector = inspectorElement();
  inspector.heading = `Picture of ${SIDE_NAMES[side]}`;
  // One transport moves both.
  inspector.toggleAttribute('embedded', true);
  inspector.lanes = ['user', 'normal', 'background'];
  const code = h('code');
  const element = h(
    'section',
    { class: `board ${side}`, 'aria-labelledby': `board-${side}` },
    h(
      'header',
      {},
      h('h2', { id: `board-${side}` }, SIDE_NAMES[side]),
      h('p', {}, ABOUT[side]),
      h('div', { class: 'actions' }, ...actions),
    ),
    inspector,
    h('details', {}, h('summary', {}, side === 'plain' ? 'The recipe' : 'The pipeline'), h('pre', { tabindex: 0 }, code)),
  );
  return { element, inspector, code };
}
