import { make, svg, time, write } from './dom.js';
import type { FlowBatch } from './flow-parts.js';

const WIDTH = 230;
const HEIGHT = 24;
/** A tree of thousands says no more than its beginning. */
const MOST_ROWS = 200;
const SHOWN = 6;

/** The calls that were repeated or cut up, newest first; each opens into its tree. */
export function createTrees(): { readonly element: Element; show(trees: readonly FlowBatch[]): void } {
  const element = make('div', { class: 'limits' });
  const shown = new Map<FlowBatch, HTMLDetailsElement>();

  const show = (trees: readonly FlowBatch[]): void => {
    const newest = trees.slice(-SHOWN);
    for (const tree of newest) {
      if (shown.has(tree)) continue;
      const inside = make('div', { tabindex: 0, role: 'group', 'aria-label': `calls of ${tree.label}` });
      const details = make('details', {}, make('summary', { 'data-tree': '' }), inside);
      details.ontoggle = () => {
        update(details, tree);
      };
      shown.set(tree, details);
      element.prepend(details);
    }
    for (const [tree, details] of shown) {
      update(details, tree);
      // One that is being read stays, while there is a source that had it.
      if (newest.includes(tree) || (details.open && trees.length > 0)) continue;
      details.remove();
      shown.delete(tree);
    }
  };
  return { element, show };
}

function update({ open, children }: HTMLDetailsElement, tree: FlowBatch): void {
  const [head, inside] = children as unknown as [Element, Element];
  const { label, slot, outcome, parts, calls } = tree;
  const what = slot >= 0 ? 'under way' : `${outcome}, ${parts > 0 ? `cut into ${parts}` : 'sent again'}`;
  write(head, `${label}: ${what}; ${calls} calls`);
  if (open) inside.replaceChildren(draw(tree));
}

/** From left to right: each call, and what came of it. */
function draw(tree: FlowBatch): SVGElement {
  const lines: Node[] = [];
  const marks: Node[] = [];
  let rows = 0;
  let columns = 0;
  const place = ({ slot, outcome, label, latencyMs, children }: FlowBatch, x: number): number => {
    const isNow = slot >= 0;
    columns = Math.max(columns, x + WIDTH);
    const ys = children.slice(0, MOST_ROWS - rows).map((child) => place(child, x + WIDTH));
    const y = ys.length === 0 ? (rows++ + 0.5) * HEIGHT : ((ys[0] as number) + (ys.at(-1) as number)) / 2;
    for (const to of ys) lines.push(svg('path', { d: `M${x} ${y}h${WIDTH - 24}V${to}h24` }));
    const colour = isNow ? 'l0' : outcome === 'ok' ? outcome : outcome === 'cancelled' ? 'soft' : 'bad';
    const text = isNow ? `${label} …` : `${label} ${outcome} ${time(latencyMs)}`;
    marks.push(svg('circle', { cx: x, cy: y, r: 5, fill: `var(--${colour})` }), svg('text', { x: x + 10, y: y + 4 }, text));
    return y;
  };
  place(tree, 10);
  return svg('svg', { width: columns, height: rows * HEIGHT }, ...lines, ...marks);
}
