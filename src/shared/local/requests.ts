import type { Credit, CreditCorrection, CreditCorrections, CreditLimit, CreditQuestion, CreditWait } from '../../../operators/index.js';

/** What a process asks of the server. */
export type LocalRequest =
  | { readonly ask: CreditQuestion }
  | { readonly correct: CreditCorrections }
  | { readonly hold: { readonly scope: string; readonly ms: number } };

export type LocalAnswer = Credit | CreditWait | undefined;

/** Most entries of a list. */
const LONGEST_LIST = 10_000;

type Fields = Readonly<Record<string, unknown>>;

/** Thrown inside this module: something is not what it should be. */
const WRONG = new TypeError('not a message of a store of credit');

/**
 * The request in a value that came from outside, field by field: what else is in it is left behind.
 *
 * @throws TypeError when a field is missing or out of range.
 */
export function readRequest(value: unknown): LocalRequest {
  const { ask, correct, hold } = fieldsOf(value);
  if (ask !== undefined) return { ask: readQuestion(fieldsOf(ask)) };
  if (correct !== undefined) return { correct: readCorrections(fieldsOf(correct)) };
  const { scope, ms } = fieldsOf(hold);
  return { hold: { scope: text(scope), ms: endless(ms) } };
}

/** The number that an answer to a request repeats. @throws TypeError */
export function readId(value: unknown): number {
  return count(fieldsOf(value)['id']);
}

/** The answer to a request. @throws TypeError */
export function readAnswer(request: LocalRequest, value: unknown): LocalAnswer {
  if (!('ask' in request)) return undefined;
  const { amounts, credit, epoch, holdMs, left, lessons, waitMs } = fieldsOf(value);
  const news = { left: list(left, leftOf), holdMs: endless(holdMs), epoch: count(epoch), lessons: table(lessons) };
  return credit === undefined
    ? { waitMs: endless(waitMs), ...news }
    : { credit: number(credit), amounts: list(amounts, amountOf), ...news };
}

function readQuestion(fields: Fields): CreditQuestion {
  const { epoch, floors, guardMs, lane, least, lessons, limits, most, number, owner, scope } = fields;
  const units = list(least, amountOf);
  return {
    scope: text(scope),
    owner: text(owner),
    number: count(number),
    limits: limitsOf(limits, units.length),
    guardMs: amountOf(guardMs),
    lane: position(lane),
    floors: list(floors, amountOf),
    least: units,
    most: list(most, amountOf, units.length),
    epoch: count(epoch),
    ...(lessons !== undefined && { lessons: table(lessons) }),
  };
}

function readCorrections({ corrections, guardMs, limits, number, owner, scope }: Fields): CreditCorrections {
  return {
    scope: text(scope),
    owner: text(owner),
    number: count(number),
    limits: limitsOf(limits, LONGEST_LIST),
    guardMs: amountOf(guardMs),
    corrections: list(corrections, readCorrection),
  };
}

function readCorrection(value: unknown): CreditCorrection {
  const { amounts, credit, lane } = fieldsOf(value);
  return { credit: number(credit), lane: position(lane), amounts: list(amounts, number) };
}

function limitsOf(value: unknown, columns: number): CreditLimit[] {
  return list(value, (each) => {
    const { amount, burst, column, endsInMs, fromLane, key, windowMs } = fieldsOf(each);
    return {
      key: text(key),
      column: position(column, columns),
      amount: positive(amount),
      windowMs: positive(windowMs),
      ...(burst !== undefined && { burst: amountOf(burst) }),
      ...(endsInMs !== undefined && { endsInMs: amountOf(endsInMs) }),
      fromLane: position(fromLane),
    };
  });
}

function fieldsOf(value: unknown): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw WRONG;
  return value as Fields;
}

function text(value: unknown): string {
  if (typeof value !== 'string') throw WRONG;
  return value;
}

/** A number as large as sums of it stay exact. */
function number(value: unknown): number {
  if (typeof value !== 'number' || !(Math.abs(value) <= Number.MAX_SAFE_INTEGER)) throw WRONG;
  return value;
}

function amountOf(value: unknown): number {
  if (!(number(value) >= 0)) throw WRONG;
  return value as number;
}

function positive(value: unknown): number {
  if (!(number(value) > 0)) throw WRONG;
  return value as number;
}

/** A time or an amount that may be without end: JSON makes null of Infinity. */
function endless(value: unknown): number {
  return value === null || value === Infinity ? Infinity : amountOf(value);
}

/** What a limit has left: less than nothing after more was spent than estimated, or the limit was lowered. */
function leftOf(value: unknown): number {
  return value === null || value === Infinity ? Infinity : number(value);
}

function count(value: unknown): number {
  if (!Number.isSafeInteger(amountOf(value))) throw WRONG;
  return value as number;
}

function position(value: unknown, length = LONGEST_LIST): number {
  if (count(value) >= length) throw WRONG;
  return value as number;
}

function list<V>(value: unknown, read: (item: unknown) => V, length?: number): V[] {
  if (!Array.isArray(value) || value.length > LONGEST_LIST || value.length !== (length ?? value.length)) throw WRONG;
  return value.map(read);
}

function table(value: unknown): Record<string, number> {
  return Object.fromEntries(Object.entries(fieldsOf(value)).map(([key, amount]) => [key, endless(amount)]));
}
