import { trustedBlame } from './blame.js';

/** What a failed batch looked like, and what has been spent on it. Indices are positions in the failed call. */
export interface DivideInput {
  readonly size: number;
  /** Weight of each item, for a split by weight. */
  readonly weights: ArrayLike<number>;
  /** Positions the error blames; trusted only when each is in range and none is doubled. */
  readonly blame?: readonly number[] | undefined;
  /** Set when the batch was too large: what the other side measured, and its limit. */
  readonly tooLarge?: { readonly actual: number; readonly limit: number } | true | undefined;
  /** Splits and blame rounds above this call. */
  readonly depth: number;
  /** Calls spent or promised on the original batch, this one included. */
  readonly calls: number;
  /** Blame rounds spent on the original batch. */
  readonly blameRounds: number;
}

export interface DivideLimits {
  readonly factor: number;
  readonly maxCalls: number;
  readonly maxDepth: number;
  readonly maxBlameRounds: number;
}

/** What to do with each position: `reject` it with the error, send it again in one of `parts`, or give it up for lack of budget. */
export interface DividePlan {
  readonly reject: readonly number[];
  readonly parts: readonly (readonly number[])[];
  readonly giveUp: readonly number[];
  /** True when this step used the error's blame to send the rest in one piece. */
  readonly blamed: boolean;
}

/**
 * The next step of divide and conquer after a batch failed because of some of its items.
 *
 * Blame comes first: what the error names is rejected and the rest is sent again in one call, for at most `maxBlameRounds`.
 * After that, or without blame, the rest is split into `factor` parts of equal count (too-large batches: of equal
 * weight, as many as the reported numbers ask for). Four parts need about as many calls as halves in half the rounds.
 *
 * Source: group testing (Dorfman 1943; Hwang 1972), with the difference that a good item must be inside one successful call.
 */
export function dividePlan(input: DivideInput, limits: DivideLimits): DividePlan {
  const blame = trustedBlame(input.blame, input.size);
  const all = Array.from({ length: input.size }, (_, i) => i);
  const rest = blame ? all.filter((i) => !blame.has(i)) : all;
  const reject = blame ? all.filter((i) => blame.has(i)) : input.size === 1 ? all : [];
  if (reject.length === input.size) return { reject, parts: [], giveUp: [], blamed: blame !== undefined };

  const whole = blame !== undefined && input.blameRounds < limits.maxBlameRounds;
  const parts = whole ? [rest] : input.tooLarge ? byWeight(rest, input.weights, pieces(input.tooLarge)) : byCount(rest, limits.factor);
  if (input.depth >= limits.maxDepth || input.calls + parts.length > limits.maxCalls)
    return { reject, parts: [], giveUp: rest, blamed: whole };
  return { reject, parts, giveUp: [], blamed: whole };
}

function pieces(tooLarge: { readonly actual: number; readonly limit: number } | true): number {
  if (tooLarge === true || !(tooLarge.limit > 0)) return 2;
  // Infinity of Infinity is no number.
  return Math.max(2, Math.ceil(tooLarge.actual / tooLarge.limit) || 2);
}

/** Contiguous parts whose sizes differ by one at most; input order is kept. */
function byCount(items: readonly number[], factor: number): number[][] {
  const parts = Math.min(factor, items.length);
  return Array.from({ length: parts }, (_, p) =>
    items.slice(Math.floor((p * items.length) / parts), Math.floor(((p + 1) * items.length) / parts)),
  );
}

/** Contiguous parts of about equal weight, none empty. */
function byWeight(items: readonly number[], weights: ArrayLike<number>, wanted: number): number[][] {
  const parts = Math.min(wanted, items.length);
  const total = items.reduce((sum, i) => sum + (weights[i] ?? 1), 0);
  if (!(total > 0)) return byCount(items, parts);
  const out: number[][] = [];
  let open: number[] = [];
  let weight = 0;
  items.forEach((item, at) => {
    open.push(item);
    weight += weights[item] ?? 1;
    const left = items.length - at - 1;
    const due = weight >= (total * (out.length + 1)) / parts;
    if ((due || left < parts - out.length) && out.length < parts - 1) {
      out.push(open);
      open = [];
    }
  });
  return [...out, open];
}
