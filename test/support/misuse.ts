/** One bad option and what is said about it. */
export interface MisuseRow {
  readonly option: string;
  readonly value: unknown;
  /** What the message says after "expected `option` to be". */
  readonly expected: string;
  /** Other options the row needs to reach the check. */
  readonly besides?: Readonly<Record<string, unknown>>;
}

/** The bad options of one operator or factory; `test/misuse/<name>.rows.ts` exports one as `rows`. */
export interface MisuseTable {
  /** Name of the operator, as exported. */
  readonly operator: string;
  /** Calls it with the options. */
  readonly create: (options: never) => unknown;
  readonly rows: readonly MisuseRow[];
}

/** The same expectation for many values. */
export function badly(option: string, expected: string, ...values: readonly unknown[]): MisuseRow[] {
  return values.map((value) => ({ option, value, expected }));
}
