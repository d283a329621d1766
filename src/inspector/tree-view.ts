import { make, svg, time, write } from './dom.js';
import type { FlowBatch } from './flow-parts.js';

const WIDTH = 230;
const HEIGHT = 24;
/** A tree of thousands says no more than its beginning. */
const MOST_ROWS = 200;
const SHOWN = 6;

interface Row {
  readonly element: HTMLDetailsElement;
  /** Writes what has changed. */
  show(): void;
}

/** The calls that were repeated or cut up, newest first; each opens into its tree. */
export class TreeView {
  readonly element = make('div', { class: 'limits' });
  readonly #rows = new Map<FlowBatch, Row>();

  show(trees: readonly FlowBatch[]): void {
    const newest = trees.slice(-SHOWN);
    this.element.hidden = newest.length === 0;
    // One that is being read stays, while there is a source that had it.
    for (const [tree, { element }] of this.#rows) {
      if (newest.includes(tree) || (element.open && trees.length > 0)) continue;
      element.remove();
      this.#rows.delete(tree);
    }
    for (const tree of newest) {
      let row = this.#rows.get(tree);
      if (row === undefined) {
        row = rowOf(tree);
        this.#rows.set(tree, row);
        this.element.prepend(row.element);
      }
      row.show();
    }
  }
}

function rowOf(tree: FlowBatch): Row {
  const head = make('summary', { 'data-tree': '' });
  const inside = make('div', { tabindex: 0, role: 'group', 'aria-label': `calls of ${tree.label}` });
  const element = make('details', {}, head, inside);
  let drawn = '';
  const show = (): void => {
    const { calls } = tree;
    const isOver = tree.open <= 0 && tree.running === 0;
    write(head, `${tree.label}: ${why(tree)}; ${String(calls)} calls${isOver ? '' : ', going on'}`);
    const now = `${String(calls)} ${String(isOver)}`;
    if (!element.open || (now === drawn && isOver)) return;
    drawn = now;
    inside.replaceChildren(draw(tree));
  };
  element.ontoggle = show;
  return { element, show };
}

function why({ slot, outcome, parts }: FlowBatch): string {
  if (slot >= 0) return 'under way';
  return `failed (${outcome}), ${parts > 0 ? `cut into ${String(parts)}` : 'sent again'}`;
}

/** From left to right: each call, and what came of it. */
function draw(tree: FlowBatch): SVGElement {
  const lines: Node[] = [];
  const marks: Node[] = [];
  let rows = 0;
  let columns = 1;
  const place = (batch: FlowBatch, depth: number): number => {
    const { slot, outcome, label, latencyMs, children } = batch;
    const isNow = slot >= 0;
    const name = isNow ? `${label} …` : `${label} ${outcome} ${time(latencyMs)}`;
    columns = Math.max(columns, depth + 1);
    const ys = children.slice(0, MOST_ROWS - rows).map((child) => place(child, depth + 1));
    const y = ys.length === 0 ? (rows++ + 0.5) * HEIGHT : ((ys[0] as number) + (ys.at(-1) as number)) / 2;
    const x = depth * WIDTH + 10;
    const half = x + WIDTH - 24;
    for (const to of ys)
      lines.push(
        svg('path', { d: `M${String(Math.min(half, x + 16 + 6.5 * name.length))} ${String(y)}H${String(half)}V${String(to)}h16` }),
      );
    const colour = isNow ? 'l0' : outcome === 'ok' ? outcome : outcome === 'cancelled' ? 'gone' : 'bad';
    marks.push(svg('circle', { cx: x, cy: y, r: 5, fill: `var(--${colour})` }), svg('text', { x: x + 10, y: y + 4 }, name));
    return y;
  };
  place(tree, 0);
  const [width, height] = [columns * WIDTH, rows * HEIGHT];
  return svg('svg', { width, height, viewBox: `0 0 ${String(width)} ${String(height)}` }, ...lines, ...marks);
}
