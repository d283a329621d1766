/**
 * Cuts items that are too heavy for a batch, and makes one result of those of the parts; made by `splitItem`.
 * @stable
 */
export interface SplitItem<T, R> {
  /** @throws CallbackError when there is no part */
  into(operator: string, item: T): readonly T[];
  /** @throws CallbackError */
  join(operator: string, results: readonly R[]): R;
  /**
   * Puts jobs of their own for the parts of an item into its job.
   *
   * @throws CallbackError, ItemTooHeavyError
   */
  cut(operator: string, job: never, rules: PartRules<T>, heaviest: number): void;
}

/** What is asked about a part as about an item. */
export interface PartRules<T> {
  readonly weigh?: ((item: T) => number) | undefined;
  readonly id?: ((item: T) => string) | undefined;
}
