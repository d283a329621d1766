interface Timed<T> {
  readonly at: number;
  /** How many were pushed before it. */
  readonly seq: number;
  readonly item: T;
}

function isBefore(one: Timed<unknown>, other: Timed<unknown>): boolean {
  return one.at < other.at || (one.at === other.at && one.seq < other.seq);
}

/** A binary min-heap of items by time. Equal times come out in the order they went in. */
export class DeadlineHeap<T> {
  private nodes: Timed<T>[] = [];
  private pushed = 0;

  get length(): number {
    return this.nodes.length;
  }

  /** The earliest time; Infinity when empty. */
  peekAt(): number {
    return this.nodes[0]?.at ?? Infinity;
  }

  peek(): T | undefined {
    return this.nodes[0]?.item;
  }

  push(at: number, item: T): void {
    const { nodes } = this;
    const node = { at, seq: this.pushed++, item };
    let place = nodes.push(node) - 1;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = nodes[parent] as Timed<T>;
      if (isBefore(above, node)) break;
      nodes[place] = above;
      place = parent;
    }
    nodes[place] = node;
  }

  /** Takes the item with the earliest time. */
  pop(): T | undefined {
    const { nodes } = this;
    const item = this.peek();
    const node = nodes.pop() as Timed<T>;
    if (nodes.length === 0) return item;
    let place = 0;
    for (let child = 1; child < nodes.length; child = 2 * place + 1) {
      const right = nodes[child + 1];
      if (right && isBefore(right, nodes[child] as Timed<T>)) child++;
      const least = nodes[child] as Timed<T>;
      if (isBefore(node, least)) break;
      nodes[place] = least;
      place = child;
    }
    nodes[place] = node;
    return item;
  }

  /** Keeps what the predicate accepts; when it throws, everything stays. */
  keep(accepts: (item: T) => boolean): void {
    // A sorted list is a heap.
    this.nodes = this.nodes.filter(({ item }) => accepts(item)).sort((one, other) => (isBefore(one, other) ? -1 : 1));
  }
}
