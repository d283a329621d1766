import { existsSync, readdirSync } from 'node:fs';

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
  /** What is not one of the options: an argument (`work`), or what a method takes (`penalize.pauseMs`, `LimiterJob.timeoutMs`). */
  readonly calls?: Readonly<Record<string, (value: never) => unknown>>;
  /** True when there are no options: everything is said in `calls`. */
  readonly optionless?: true;
  readonly rows: readonly MisuseRow[];
}

/** The same expectation for many values. */
export function badly(option: string, expected: string, ...values: readonly unknown[]): MisuseRow[] {
  return values.map((value) => ({ option, value, expected }));
}

/** The tables of `test/misuse`. Those of adapters import their packages, some of which start timers then. */
export async function misuseTables(of: 'operators' | 'all' = 'all'): Promise<readonly MisuseTable[]> {
  const names = readdirSync(new URL('../misuse/', import.meta.url)).flatMap((file) => /^(.+)\.rows\.ts$/.exec(file)?.[1] ?? []);
  const wanted = names.filter((name) => of === 'all' || existsSync(new URL(`../../operators/${name}.ts`, import.meta.url)));
  return Promise.all(wanted.sort().map(async (name) => ((await import(`../misuse/${name}.rows.ts`)) as { rows: MisuseTable }).rows));
}

/** Says one thing, right or wrong, in the place it belongs to. */
export function say({ create, calls }: MisuseTable, { option, value, besides }: Omit<MisuseRow, 'expected'>): unknown {
  const call = calls?.[option];
  return call ? call(value as never) : create({ ...besides, [option]: value } as never);
}

/** A value as the errors of wrong options show it. */
export function show(value: unknown): string {
  if ((typeof value === 'object' && value !== null) || typeof value === 'function') {
    const made = (value as { constructor?: { name: string } }).constructor;
    return `an object of type ${String(made?.name)}`;
  }
  return `\`${String(value).substring(0, 40)}\` (${typeof value})`;
}

/** What an error calls it: `timeoutMs`, and not `LimiterJob.timeoutMs`. */
export function reported({ calls }: MisuseTable, option: string): string {
  return calls && option in calls ? option.replace(/^\w+\./, '') : option;
}
