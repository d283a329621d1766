/**
 * The state of a store of credit, for `restore`. JSON keeps it.
 * @beta
 */
export interface SavedCredit {
  /** When it was saved, on the clock of the store. */
  readonly at: number;
  /** Until when grants may have been made that are not known. */
  readonly lostAt?: number | undefined;
  /** By name, what is kept of each scope. The format belongs to one version of Sluice. */
  readonly scopes: readonly (readonly [name: string, scope: unknown])[];
}

/** A copy that JSON keeps: maps are lists of pairs, and infinite numbers are the largest ones. */
export function plainCopy(value: unknown): unknown {
  return copy(value, (number) => Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, number)));
}

/** A copy of what {@link plainCopy} has made, with infinite numbers. */
export function liveCopy(value: unknown): unknown {
  return copy(value, (number) => (Math.abs(number) < Number.MAX_VALUE ? number : number * 2));
}

function copy(value: unknown, numberOf: (number: number) => number): unknown {
  if (typeof value === 'number') return numberOf(value);
  const part = (each: unknown): unknown => copy(each, numberOf);
  if (value instanceof Map || Array.isArray(value)) return Array.from(value, part);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, part(each)]));
}

/** Whether a value, maybe from a file, has the shape of a saved state, so that a ledger can continue with it. */
export function isSavedCredit(value: unknown): value is SavedCredit {
  const { at, lostAt, scopes } = fieldsOf(value);
  return isNumber(at) && (lostAt === undefined || isNumber(lostAt)) && isTable(scopes, isScope);
}

function isScope(value: unknown): boolean {
  const { epoch, heldUntil, keptUntil, lessonAt, lessons, owed, owners, waitedAt, waiting, windows } = fieldsOf(value);
  return (
    [epoch, heldUntil, keptUntil, lessonAt].every(isNumber) &&
    Object.values(fieldsOf(lessons)).every(isNumber) &&
    [owed, waitedAt].every((lanes) => isListOf(lanes, (lane) => lane === undefined || lane === null || isNumber(lane))) &&
    isTable(windows, isWindow) &&
    isTable(waiting, isWaiting) &&
    isTable(owners, isOwner)
  );
}

function isWindow(value: unknown): boolean {
  const { parts, ...numbers } = fieldsOf(value);
  const isPart = (part: unknown): boolean => isListOf(part, isNumber) && part.length === 2;
  return isListOf(parts, isPart) && Object.values(numbers).every((each) => each === undefined || isNumber(each));
}

function isWaiting(value: unknown): boolean {
  const { dueAt, lane, least, limits, seenAt, since } = fieldsOf(value);
  return [dueAt, lane, seenAt, since].every(isNumber) && isListOf(least, isNumber) && isListOf(limits, isLimit);
}

function isLimit(value: unknown): boolean {
  const { amount, column, fromLane, key } = fieldsOf(value);
  return typeof key === 'string' && [amount, column, fromLane].every(isNumber);
}

function isOwner(value: unknown): boolean {
  const { answer, asked, corrected, seenAt } = fieldsOf(value);
  return [asked, corrected, seenAt].every(isNumber) && (answer === undefined || isListOf(fieldsOf(answer)['left'], isNumber));
}

/** A map as pairs. */
function isTable(value: unknown, isGood: (item: unknown) => boolean): boolean {
  return isListOf(value, (row) => isListOf(row, () => true) && row.length === 2 && typeof row[0] === 'string' && isGood(row[1]));
}

function isListOf(value: unknown, isGood: (item: unknown) => boolean): value is readonly unknown[] {
  return Array.isArray(value) && value.every(isGood);
}

function isNumber(value: unknown): value is number {
  return Number.isFinite(value);
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return Object(value) as Readonly<Record<string, unknown>>;
}
