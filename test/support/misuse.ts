import { existsSync, readdirSync } from 'node:fs';

/** One bad option and what is said about it. */
export interface MisuseRow {
  readonly option: string;
  readonly value: unknown;
  /** What the message says after "expected `option` to be"; after a `problem`, the repair. `{option}` stands for what the error calls the option. */
  readonly expected: string;
  /** What the message begins with, when it is not about a wrong value. */
  readonly problem?: string;
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
  /** Under which name errors come that another function has in part of the table: by what stands before the dot. */
  readonly names?: Readonly<Record<string, string>>;
  /** True when there are no options: everything is said in `calls`. */
  readonly optionless?: true;
  readonly rows: readonly MisuseRow[];
}

/** The same expectation for many values. */
export function badly(option: string, expected: string, ...values: readonly unknown[]): MisuseRow[] {
  return values.map((value) => ({ option, value, expected }));
}

/** What is not a limiter. */
export function notLimiter(...more: readonly unknown[]): MisuseRow[] {
  return badly('limiter', 'a limiter made by createLimiter or createAccount', NaN, 0, -1, 1.5, Infinity, 'text', null, {}, ...more);
}

/** The same for a problem that is not the value itself. */
export function wrong(option: string, problem: string, repair: string, ...values: readonly unknown[]): MisuseRow[] {
  return values.map((value) => ({ option, value, problem, expected: repair }));
}

const UNKNOWN = 'unknown option `{option}`';

/** An option that is near to none of those that are known. */
export function unknown(option: string, known: string, ...values: readonly unknown[]): MisuseRow[] {
  return wrong(option, UNKNOWN, `Known options: ${known}.`, ...values);
}

/** A misspelt option, and what was meant. */
export function misspelt(option: string, meant: string, ...values: readonly unknown[]): MisuseRow[] {
  return wrong(option, UNKNOWN, `Did you mean \`${meant}\`?`, ...values);
}

/** What the error of a row says, without the name of the function. */
export function messageOf(table: MisuseTable, { option, value, problem, expected }: MisuseRow): string {
  const name = reported(table, option);
  const sentence = (text: string): string => text.replaceAll('{option}', name);
  return problem === undefined
    ? `expected \`${name}\` to be ${expected}, got ${show(value, expected)}`
    : `${sentence(problem)}. ${sentence(expected)}`;
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
export function show(value: unknown, expected = ''): string {
  if (Array.isArray(value)) return `an array of length ${String(value.length)}`;
  if ((typeof value === 'object' && value !== null) || typeof value === 'function') {
    const made = (value as { constructor?: { name: string } }).constructor;
    return `an object of type ${String(made?.name)}`;
  }
  if (Number.isNaN(value) && expected.includes('number')) return 'NaN (is the environment variable set?)';
  const shown = `\`${String(value).substring(0, 40)}\``;
  if (value === '') return 'an empty string';
  return value === undefined || value === null ? shown : `${shown} (${typeof value})`;
}

/** The function that an error names. */
export function operatorOf({ operator, names }: MisuseTable, option: string): string {
  return names?.[option.split('.')[0] as string] ?? operator;
}

/** What an error calls it: `timeoutMs`, and not `LimiterJob.timeoutMs`. */
export function reported({ calls }: MisuseTable, option: string): string {
  return calls && option in calls ? option.replace(/^\w+\./, '') : option;
}
