import { FlowConfigError } from './errors.js';

/** A whole number >= `least`, or Infinity for "no limit". */
export function count(operator: string, option: string, value: unknown, least = 1): number {
  if (value === Infinity || (Number.isSafeInteger(value) && (value as number) >= least)) return value as number;
  throw new FlowConfigError(operator, option, `a whole number >= ${String(least)} or Infinity`, value);
}

/** A whole number >= 0, or Infinity for "no limit". */
export function countFromZero(operator: string, option: string, value: unknown): number {
  return count(operator, option, value, 0);
}

/** A number of milliseconds >= 0, or Infinity for "never". */
export function durationMs(operator: string, option: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0) return value;
  throw new FlowConfigError(operator, option, 'a number of milliseconds >= 0 or Infinity', value);
}

/** A number > 0, or Infinity for "no limit". */
export function positive(operator: string, option: string, value: unknown): number {
  if (typeof value === 'number' && value > 0) return value;
  throw new FlowConfigError(operator, option, 'a number > 0 or Infinity', value);
}

/** A finite number between `least` and `most`, both included. */
export function ratio(operator: string, option: string, value: unknown, least = 0, most = 1): number {
  if (typeof value === 'number' && value >= least && value <= most && value !== Infinity) return value;
  throw new FlowConfigError(operator, option, `a number from ${String(least)} to ${String(most)}`, value);
}

/** One of a closed set of words. */
export function oneOf<const V extends string>(operator: string, option: string, value: unknown, words: readonly V[]): V {
  if (words.includes(value as V)) return value as V;
  throw new FlowConfigError(operator, option, `one of ${words.map((w) => `'${w}'`).join(', ')}`, value);
}

/** What was given, or the default when it was left out. `null` is not left out: it is checked, and refused. */
export function orDefault<V, D>(value: V | undefined, fallback: D): V | D {
  return value === undefined ? fallback : value;
}

/** An option about keys, or its default: without a `key` it would say nothing. */
export function ofKeys<V, D>(operator: string, option: string, value: V | undefined, keyed: boolean, fallback: D): V | D {
  if (value === undefined) return fallback;
  if (!keyed) throw new FlowConfigError(operator, option, 'absent without a `key`', value);
  return value;
}

/** A function, or nothing. */
export function callback<F>(operator: string, option: string, value: F): F {
  if (value === undefined || typeof value === 'function') return value;
  throw new FlowConfigError(operator, option, 'a function', value);
}

/** A function that must be there. */
export function required<F>(operator: string, option: string, value: F): F {
  if (typeof value === 'function') return value;
  throw new FlowConfigError(operator, option, 'a function', value);
}

/** A text with something in it. */
export function filled(operator: string, option: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  throw new FlowConfigError(operator, option, 'a non-empty string', value);
}

/** True or false. */
export function flag(operator: string, option: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw new FlowConfigError(operator, option, 'true or false', value);
}

/**
 * An options object (or what else is called by `what`) without fields nobody knows: a misspelt option is an error, not a default.
 * `within` is the option they are part of, with a dot.
 */
export function known(operator: string, options: unknown, names: readonly string[], what = 'options', within = ''): void {
  if (typeof options !== 'object' || options === null) throw new FlowConfigError(operator, what, 'an object', options);
  // Not `Object.keys`: this is on the way of every job of a limiter.
  for (const name in options) {
    if (names.includes(name) || !Object.hasOwn(options, name)) continue;
    const given = (options as Record<string, unknown>)[name];
    // A misspelt `apiKey` is a secret, too.
    const shown = typeof given === 'string' ? 'a string' : undefined;
    throw new FlowConfigError(
      operator,
      within + name,
      `absent (known options: ${names.join(', ')})`,
      shown === undefined ? given : undefined,
      shown,
    );
  }
}

/** Options under one name, which `false` turns off. */
export function group<O extends object>(operator: string, option: string, value: O | undefined): Partial<O> {
  if (value === undefined || (typeof value === 'object' && (value as unknown) !== null)) return value ?? {};
  throw new FlowConfigError(operator, option, 'an object or false', value);
}

/** One option's value when it is good; throws {@link FlowConfigError} when not. Gets `undefined` for one that was left out and has no default. */
export type Check = (operator: string, option: string, value: never) => unknown;

/** Options after {@link checked}: what has a default is there. */
export type Checked<O, D> = {
  readonly [K in keyof O]-?: K extends keyof D | 'scheduler' ? Exclude<O[K], undefined> : undefined extends O[K] ? O[K] | undefined : O[K];
};

/** Every option with its default and checked; one that nobody knows is an error. `within` is what the options are part of, with a dot. */
export function checked<O extends object, D extends object>(
  operator: string,
  options: O,
  defaults: D,
  checks: { readonly [K in keyof O]-?: Check },
  within = '',
): Checked<O, D> {
  known(operator, options, Object.keys(checks), within === '' ? 'options' : within.slice(0, -1), within);
  const all: Record<string, unknown> = {};
  for (const [name, check] of Object.entries<Check>(checks)) {
    const value = orDefault(options[name as keyof O], defaults[name as keyof D] as unknown);
    all[name] = check(operator, within + name, value as never);
  }
  return all as Checked<O, D>;
}

/** A check of what may be left out and has no default. */
export function maybe<V>(check: (operator: string, option: string, value: V) => V) {
  return (operator: string, option: string, value: V | undefined): V | undefined =>
    value === undefined ? value : check(operator, option, value);
}

/** A check of a value made by one of our functions, known by a method, or of one of some others. */
export function made<V>(method: string, expected: string, ...others: readonly unknown[]) {
  return (operator: string, option: string, value: V): V => {
    if (others.includes(value) || typeof (Object(value) as Record<string, unknown>)[method] === 'function') return value;
    throw new FlowConfigError(operator, option, expected, value);
  };
}

/** {@link oneOf} as a check. */
export function words<const V extends string>(...allowed: readonly V[]): (operator: string, option: string, value: unknown) => V {
  return (operator, option, value) => oneOf(operator, option, value, allowed);
}

/** For an option that is looked at together with others. */
export function asGiven<V>(_operator: string, _option: string, value: V): V {
  return value;
}

/** The names of all options: those that have defaults, and others. A call, because a bundler drops one that it is told is pure. */
export function optionNames(defaults: object, ...others: readonly string[]): readonly string[] {
  return [...Object.keys(defaults), ...others];
}
