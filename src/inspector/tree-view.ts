import { make, svg, time, write } from './dom.js';
import type { FlowBatch } from './flow-parts.js';

const WIDTH = 230;
const HEIGHT = 24;
/** A tree of thousands says no more than its beginning. */
const MOST_ROWS = 200;
const SHOWN = 6;

/** The calls that were repeated or cut up, newest first; each opens into its tree. */
export class TreeView {
  readonly element = make('div', { class: 'trees' });
  readonly #rows = new Map<FlowBatch, Row>();

  show(trees: readonly FlowBatch[]): void {
    const newest = trees.slice(-SHOWN).reverse();
    this.element.hidden = newest.length === 0;
    // One that is being read stays.
    for (const [tree, row] of this.#rows) {
      if (newest.includes(tree) || row.isOpen) continue;
      row.element.remove();
      this.#rows.delete(tree);
    }
    for (const tree of [...newest].reverse()) {
      let row = this.#rows.get(tree);
      if (row === undefined) {
        row = new Row();
        this.#rows.set(tree, row);
        this.element.prepend(row.element);
      }
      row.show(tree);
    }
  }

  clear(): void {
    this.#rows.clear();
    this.element.replaceChildren();
  }
}

class Row {
  readonly #button = make('button', { type: 'button', 'data-tree': '', 'aria-expanded': 'false' });
  readonly #inside = make('div', { tabindex: '0', role: 'group' });
  readonly element = make('div', { class: 'tree' }, this.#button, this.#inside);
  #tree: FlowBatch | undefined;
  #drawn = '';
  isOpen = false;

  constructor() {
    this.#inside.hidden = true;
    this.#button.addEventListener('click', () => {
      this.isOpen = !this.isOpen;
      this.#button.setAttribute('aria-expanded', String(this.isOpen));
      this.#inside.hidden = !this.isOpen;
      if (this.#tree) this.show(this.#tree);
    });
  }

  show(tree: FlowBatch): void {
    this.#tree = tree;
    const { calls, isOver } = summary(tree);
    const text = `${this.isOpen ? '▾' : '▸'} ${tree.label}: ${why(tree)}; ${String(calls)} calls${isOver ? '' : ', going on'}`;
    write(this.#button, text);
    if (!this.isOpen) return;
    const now = `${String(calls)} ${String(isOver)}`;
    if (now === this.#drawn && isOver) return;
    this.#drawn = now;
    this.#inside.setAttribute('aria-label', `calls of ${tree.label}`);
    this.#inside.replaceChildren(draw(tree));
  }
}

function why({ outcome, parts, isExecuting }: FlowBatch): string {
  if (isExecuting) return 'under way';
  return parts > 0 ? `failed (${outcome}), cut into ${String(parts)}` : `failed (${outcome}), sent again`;
}

function summary(tree: FlowBatch): { calls: number; isOver: boolean } {
  let calls = 1 + tree.more;
  let isOver = tree.open <= 0 && !tree.isExecuting;
  for (const child of tree.children) {
    const below = summary(child);
    calls += below.calls;
    isOver &&= below.isOver;
  }
  return { calls, isOver };
}

/** From left to right: each call, and what came of it. */
function draw(tree: FlowBatch): SVGElement {
  const lines: Node[] = [];
  const marks: Node[] = [];
  let rows = 0;
  let columns = 1;
  const place = (batch: FlowBatch, depth: number): number => {
    columns = Math.max(columns, depth + 1);
    const ys = batch.children.slice(0, MOST_ROWS - rows).map((child) => place(child, depth + 1));
    const y = ys.length === 0 ? (rows++ + 0.5) * HEIGHT : ((ys[0] as number) + (ys.at(-1) as number)) / 2;
    const x = depth * WIDTH + 10;
    for (const to of ys) {
      const half = x + WIDTH - 24;
      lines.push(
        svg('path', { d: `M${String(Math.min(half, x + 16 + 6.5 * name(batch).length))} ${String(y)}H${String(half)}V${String(to)}h16` }),
      );
    }
    marks.push(svg('circle', { cx: x, cy: y, r: 5, class: colour(batch) }), svg('text', { x: x + 10, y: y + 4 }, name(batch)));
    return y;
  };
  place(tree, 0);
  const [width, height] = [columns * WIDTH, rows * HEIGHT];
  return svg('svg', { width, height, viewBox: `0 0 ${String(width)} ${String(height)}` }, ...lines, ...marks);
}

function name({ label, outcome, isExecuting, latencyMs }: FlowBatch): string {
  return isExecuting ? `${label} …` : `${label} ${outcome} ${time(latencyMs)}`;
}

function colour({ outcome, isExecuting }: FlowBatch): string {
  return isExecuting ? 'o-now' : outcome === 'ok' ? 'o-ok' : outcome === 'cancelled' ? 'o-gone' : 'o-bad';
}
