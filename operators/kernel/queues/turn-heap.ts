/** Has a place in a heap; the one with the least tag goes first, of equal tags the one with the least order. */
export interface HeapNode {
  readonly tag: number;
  readonly order: number;
  /** Its index in the heap, which the heap sets; -1 outside. */
  slot: number;
}

/** A binary min-heap whose nodes can be moved and removed from any place. */
export class TurnHeap<N extends HeapNode> {
  private readonly nodes: N[] = [];

  get first(): N | undefined {
    return this.nodes[0];
  }

  /** The node with this index: those after node `i` in the heap are `2i + 1` and `2i + 2`, and go later. */
  at(slot: number): N | undefined {
    return this.nodes[slot];
  }

  push(node: N): void {
    this.put(node, this.nodes.length);
    this.moved(node);
  }

  remove(node: N): void {
    const { slot } = node;
    const last = this.nodes.pop() as N;
    node.slot = -1;
    if (last === node) return;
    this.put(last, slot);
    this.moved(last);
  }

  /** Puts a node where it belongs now that its tag or its order is another. */
  moved(node: N): void {
    let { slot } = node;
    for (let above = (slot - 1) >> 1; slot > 0 && isBefore(node, this.nodes[above] as N); above = (slot - 1) >> 1) {
      this.put(this.nodes[above] as N, slot);
      slot = above;
    }
    for (let below = this.lesserBelow(slot); below && isBefore(below, node); below = this.lesserBelow(slot)) {
      const { slot: from } = below;
      this.put(below, slot);
      slot = from;
    }
    this.put(node, slot);
  }

  private lesserBelow(slot: number): N | undefined {
    const left = this.nodes[2 * slot + 1];
    const right = this.nodes[2 * slot + 2];
    return right && isBefore(right, left as N) ? right : left;
  }

  private put(node: N, slot: number): void {
    this.nodes[slot] = node;
    node.slot = slot;
  }
}

function isBefore(one: HeapNode, other: HeapNode): boolean {
  return one.tag < other.tag || (one.tag === other.tag && one.order < other.order);
}
