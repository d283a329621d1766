/** What a failed call looked like, and what has been spent on it. */
export interface DivideInput<J> {
  /** Items in the call. */
  readonly size: number;
  /** Those of them that still wait for a result, in their order. */
  readonly jobs: readonly J[];
  /** Those that the error names. */
  readonly named?: ReadonlySet<J> | undefined;
  /** Set when the call was too large: what the other side measured, and its limit. */
  readonly tooLarge?: { readonly actual: number; readonly limit: number } | true | undefined;
  /** Splits and blame rounds above this call. */
  readonly depth: number;
  /** Calls spent or promised on the original batch, this one included. */
  readonly calls: number;
  /** Blame rounds spent on the original batch. */
  readonly blameRounds: number;
}

export interface DivideLimits {
  readonly parts: number;
  readonly maxCalls: number;
  readonly maxDepth: number;
  readonly maxBlameRounds: number;
}

/** What to do with each item: `reject` it with the error, send it again in one of `parts`, or give it up for lack of budget. */
export interface DividePlan<J> {
  readonly reject: readonly J[];
  readonly parts: readonly (readonly J[])[];
  readonly giveUp: readonly J[];
  /** True when this step used the error's blame to send the rest in one piece. */
  readonly blamed: boolean;
}

/**
 * The next step of divide and conquer after a call failed because of some of its items.
 *
 * Blame comes first: what the error names is rejected and the rest is sent again in one call, for at most `maxBlameRounds`.
 * After that, or without blame, the rest is split into that many `parts` of equal count (too-large batches: of equal
 * weight, as many as the reported numbers ask for). Four parts need about as many calls as halves in half the rounds.
 *
 * Source: group testing (Dorfman 1943; Hwang 1972), with the difference that a good item must be inside one successful call.
 */
export function dividePlan<J extends { readonly weight: number }>(input: DivideInput<J>, limits: DivideLimits): DividePlan<J> {
  const { size, jobs, named, tooLarge, depth, calls, blameRounds } = input;
  const isBad = (job: J): boolean => (named ? named.has(job) : size === 1);
  const reject = jobs.filter(isBad);
  const rest = jobs.filter((job) => !isBad(job));
  const blamed = named !== undefined && blameRounds < limits.maxBlameRounds;
  const parts = blamed
    ? [rest].filter(({ length }) => length > 0)
    : partsOf(rest, tooLarge ? pieces(tooLarge) : limits.parts, tooLarge !== undefined);
  const isTooDear = depth >= limits.maxDepth || calls + parts.length > limits.maxCalls;
  return isTooDear ? { reject, parts: [], giveUp: rest, blamed } : { reject, parts, giveUp: [], blamed };
}

function pieces(tooLarge: { readonly actual: number; readonly limit: number } | true): number {
  if (tooLarge === true || !(tooLarge.limit > 0)) return 2;
  // Infinity of Infinity is no number.
  return Math.max(2, Math.ceil(tooLarge.actual / tooLarge.limit) || 2);
}

/** Parts of about equal weight, or of counts that differ by one at most; input order is kept, and none has everything. */
function partsOf<J extends { readonly weight: number }>(items: readonly J[], wanted: number, byWeight: boolean): J[][] {
  const weight = byWeight ? items.reduce((sum, item) => sum + item.weight, 0) : 0;
  const parts = Math.min(wanted, items.length);
  const out: J[][] = [];
  let done = 0;
  let last = -1;
  for (const item of items) {
    // What weighs nothing altogether is counted.
    const own = weight > 0 ? item.weight : 1;
    done += own;
    const at = Math.floor((parts * done - own) / (weight || items.length));
    if (at > last && out.length < parts) out.push([item]);
    else out.at(-1)?.push(item);
    last = at;
  }
  return out;
}
