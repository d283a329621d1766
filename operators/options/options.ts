import { isAmount } from './answers.js';
import { FlowConfigError } from './errors.js';
import { nearest } from './nearest.js';

/** A check of one option: answers its value. @throws FlowConfigError */
type TypedCheck<V> = (operator: string, option: string, value: unknown) => V;

/** Makes a check from what is expected and a test for it. */
export function check<V>(expected: string, isGood: (value: never) => boolean): TypedCheck<V> {
  return (operator, option, value) => {
    if (isGood(value as never)) return value as V;
    throw new FlowConfigError(operator, option, expected, value);
  };
}

/** Makes a check for a whole number >= `least`, or Infinity for "no limit". */
export function countFrom(least: number): TypedCheck<number> {
  const isGood = (given: number): boolean => given === Infinity || (Number.isSafeInteger(given) && given >= least);
  return check(`a whole number >= ${least} or Infinity`, isGood);
}

export const count = /* @__PURE__ */ countFrom(1);
export const countFromZero = /* @__PURE__ */ countFrom(0);

/** A number of milliseconds >= 0, or Infinity for "never". */
export const durationMs = /* @__PURE__ */ check<number>('a number of milliseconds >= 0 or Infinity', isAmount);

/** A number > 0, or Infinity for "no limit". */
export const positive = /* @__PURE__ */ check<number>('a number > 0 or Infinity', (value) => isAmount(value) && value > 0);

/** A finite number >= 0. */
export const amount = /* @__PURE__ */ check<number>('a finite number >= 0', (value) => isAmount(value) && value < Infinity);

/** A finite number > 0. */
export const finitePositive = /* @__PURE__ */ check<number>(
  'a finite number > 0',
  (value) => isAmount(value) && value > 0 && value < Infinity,
);

/** A number >= 0, or Infinity for "no limit". */
export const limit = /* @__PURE__ */ check<number>('a number >= 0 or Infinity', isAmount);

/** What a rate begins with: `Number('')` is 0, and a limiter made with that would never let a call pass. */
export const startingRate = /* @__PURE__ */ check<number>(
  'a number > 0 or Infinity (to stop all calls, use `pause()`)',
  (value) => isAmount(value) && value > 0,
);

/** A finite number between `least` and `most`, both included. */
export function ratio(operator: string, option: string, value: unknown, least = 0, most = 1): number {
  const isGood = (given: unknown): boolean => isAmount(given) && given >= least && given <= most;
  return check<number>(`a number from ${least} to ${most}`, isGood)(operator, option, value);
}

/** Makes a check for one of these words. */
export function oneOf<const V extends string>(...allowed: readonly V[]): TypedCheck<V> {
  return check(`one of '${allowed.join("', '")}'`, (given: V) => allowed.includes(given));
}

/** What was given, or the default when it was left out. `null` is not left out: it is checked, and refused. */
export function orDefault<V, D>(value: V | undefined, fallback: D): V | D {
  return value === undefined ? fallback : value;
}

/** An option about keys, or its default: without a `key` it would say nothing. */
export function ofKeys<V, D>(operator: string, option: string, value: V | undefined, keyed: boolean, fallback: D): V | D {
  if (value === undefined) return fallback;
  if (!keyed) needs(operator, option, value, '`key`');
  return value;
}

type SameType = <F>(operator: string, option: string, value: F) => F;

/** A function. */
export const requiredFunction = /* @__PURE__ */ check('a function', (value) => typeof value === 'function') as SameType;

/** A number of milliseconds >= 0, or Infinity, or a function that says so later. */
export const delayOption = /* @__PURE__ */ check(
  'a number of milliseconds >= 0 or Infinity',
  (value: unknown) => typeof value === 'function' || (typeof value === 'number' && value >= 0),
) as SameType;

/** A function, or nothing. */
export const callback = /* @__PURE__ */ optional(requiredFunction) as SameType;

/** A text with something in it. */
export const nonEmpty = /* @__PURE__ */ check<string>('a non-empty string', (value) => typeof value === 'string' && value !== '');

/** An object. */
export const object = /* @__PURE__ */ check('an object', (value: unknown) => typeof value === 'object' && value !== null) as SameType;

/** True or false. */
export const flag = /* @__PURE__ */ check<boolean>('true or false', (value) => typeof value === 'boolean');

/** What to use in place of options that other functions take: a sentence for this name, and for names with this end that are near no other. */
export type Hints = Readonly<Record<string, string>>;

/**
 * Checks that an options object has only these names: a misspelt option is an error, not a default. `what` is what the error calls the object;
 * `within` is the option that it is part of, with a dot.
 */
export function onlyKnown(
  operator: string,
  options: unknown,
  names: readonly string[],
  what = 'options',
  within = '',
  hints: Hints = {},
): void {
  object(operator, what, options);
  // Not `Object.keys`: this is on the way of every job of a limiter.
  for (const name in options as object) {
    if (names.includes(name) || !Object.hasOwn(options as object, name)) continue;
    if (names.includes('limiter') && typeof (options as { tryAcquire?: unknown }).tryAcquire === 'function')
      throw misused(operator, what, `\`${what}\` is a limiter`, 'Pass `{ limiter }`.');
    throw unknownOption(operator, name, names, what, within, hints);
  }
}

/** Never tells the value: a misspelt `apiKey` is a secret, too. */
function unknownOption(
  operator: string,
  name: string,
  names: readonly string[],
  what: string,
  within: string,
  hints: Hints,
): FlowConfigError {
  // A hint knows what the name means elsewhere; the nearest name is a guess.
  const ends = Object.keys(hints);
  const meant = ends.includes(name) ? undefined : nearest(name, names);
  const hint = hints[ends.find((end) => name.endsWith(end)) as string];
  const repair = meant ? `Did you mean \`${within}${meant}\`?` : (hint ?? `Known options: ${names.join(', ')}.`);
  const where = within || what === 'options' ? '' : ` in \`${what}\``;
  const problem = `unknown option \`${within}${name}\`${where}`;
  return misused(operator, within + name, problem, repair);
}

/** The error of an option that makes no sense here. `problem` and `repair` are sentences; the first one has neither capital nor stop. */
export function misused(operator: string, option: string, problem: string, repair: string): FlowConfigError {
  return new FlowConfigError(operator, option, repair, undefined, '', problem);
}

/** Refuses an option beside `other`, which is there. @throws FlowConfigError */
export function excludes(operator: string, option: string, value: unknown, other: string, repair = 'Remove one of them.'): void {
  if (value !== undefined) throw misused(operator, option, `\`${option}\` cannot be combined with ${other}`, repair);
}

/** Refuses an option without `other`, which is not there. @throws FlowConfigError */
export function needs(operator: string, option: string, value: unknown, other: string, repair = `Add it, or remove \`${option}\`.`): void {
  if (value !== undefined) throw misused(operator, option, `\`${option}\` needs ${other}`, repair);
}

/** Options under one name, which `false` turns off. */
export function group<O extends object>(operator: string, option: string, value: O | undefined): Partial<O> {
  if (value === undefined || (typeof value === 'object' && (value as unknown) !== null)) return value ?? {};
  throw new FlowConfigError(operator, option, 'an object or false', value);
}

/** One option's value when it is good; throws {@link FlowConfigError} when not. Gets `undefined` for one that was left out and has no default. */
export type Check = (operator: string, option: string, value: never) => unknown;

/**
 * Options after {@link checked}: what has a default is there. Not `[K in keyof O]-?`, which without `exactOptionalPropertyTypes` takes `undefined` away from
 * options that have no default.
 */
export type Checked<O, D> = {
  readonly [K in keyof Required<O>]: K extends keyof D | 'scheduler' ? Exclude<Given<O, K>, undefined> : OrUndefined<Given<O, K>>;
};
type Given<O, K> = O[K & keyof O];
type OrUndefined<V> = undefined extends V ? V | undefined : V;

/** Every option with its default and checked; an unknown one is an error. `within` is what the options are part of, with a dot. */
export function checked<O extends object, D extends object>(
  operator: string,
  options: O,
  defaults: D,
  checks: { readonly [K in keyof O]-?: Check },
  within = '',
  hints?: Hints,
): Checked<O, D> {
  onlyKnown(operator, options, Object.keys(checks), within.slice(0, -1) || 'options', within, hints);
  // Not from nothing, name by name: V8 makes a hash table of an object that grows so, and a look into that costs more than queueing an item.
  const all: Record<string, unknown> = { ...checks };
  for (const name in checks) {
    const { [name]: value = defaults[name as never] } = options;
    all[name] = checks[name](operator, within + name, value as never);
  }
  return all as Checked<O, D>;
}

/** Makes a check for an option that may be left out and has no default. */
export function optional<V, C = V>(check: (operator: string, option: string, value: V) => C) {
  return (operator: string, option: string, value: V | undefined): C | undefined =>
    value === undefined ? undefined : check(operator, option, value);
}

/** Makes a check for a value made by one of our functions, which is known by this method, or for one of some other values. */
export function madeBy<V>(method: string, expected: string, ...others: readonly unknown[]) {
  return check<V>(
    expected,
    (value) => others.includes(value) || typeof (Object(value) as Record<string, unknown>)[method] === 'function',
  ) as (operator: string, option: string, value: V) => V;
}

/** No check here: the option is checked together with others. */
export function unchecked<V>(_operator: string, _option: string, value: V): V {
  return value;
}
