export interface BatchLimits {
  /** Most items in one batch. */
  readonly maxSize: number;
  /** Most total weight in one batch. */
  readonly maxWeight: number;
}

/**
 * The open batch: knows when an item no longer fits and when the batch is full. Nothing else; time belongs to the caller.
 */
export class BatchKernel<T> {
  readonly #maxSize: number;
  readonly #maxWeight: number;
  #items: T[] = [];
  #weight = 0;

  constructor({ maxSize, maxWeight }: BatchLimits) {
    this.#maxSize = maxSize;
    this.#maxWeight = maxWeight;
  }

  get size(): number {
    return this.#items.length;
  }

  get weight(): number {
    return this.#weight;
  }

  /** The open batch itself, not a copy: for looking at. */
  get items(): readonly T[] {
    return this.#items;
  }

  /** False when the batch must be closed before an item of this weight. An empty batch takes anything. */
  fits(weight: number): boolean {
    return this.#items.length === 0 || this.#weight + weight <= this.#maxWeight;
  }

  /** Puts an item in; says by which limit the batch is now full. */
  add(item: T, weight: number): 'size' | 'weight' | undefined {
    const size = this.#items.push(item);
    this.#weight += weight;
    if (size >= this.#maxSize) return 'size';
    return this.#weight >= this.#maxWeight ? 'weight' : undefined;
  }

  /** Hands the batch out; the next item starts a new one. */
  take(): T[] {
    const items = this.#items;
    this.#items = [];
    this.#weight = 0;
    return items;
  }
}
