import { BatchShapeError } from '../../operators/index.js';

/** How far ahead a length can be: a model that answers another one from now on is believed after so many vectors. */
const MOST_AHEAD = 100;

/** Looks at the vectors of one model. One that is none is the failure of its text alone. */
export class VectorCheck {
  readonly #operator: string;
  /** The length that most have had: whichever came up, each of another length takes one from its lead. */
  #length = 0;
  #lead = 0;

  constructor(operator: string) {
    this.#operator = operator;
  }

  /** In place of what is no vector, or has another length than the others: what is wrong with it. */
  checked(answer: readonly unknown[]): readonly (ArrayLike<number> | Error)[] {
    const vectors = answer.map((vector) => (vector instanceof Error || isVector(vector) ? vector : undefined));
    for (const vector of vectors) if (vector && !(vector instanceof Error)) this.#count(vector.length);
    return vectors.map((vector) => {
      if (vector instanceof Error) return vector;
      if (!vector) return this.#fault(answer, 'answered with something that is no vector of finite numbers');
      if (vector.length === this.#length && this.#lead > 0) return vector;
      return this.#fault(answer, `answered with a vector of ${String(vector.length)} numbers, others have ${String(this.#length)}`);
    });
  }

  #count(length: number): void {
    if (this.#lead === 0) this.#length = length;
    this.#lead = length === this.#length ? Math.min(this.#lead + 1, MOST_AHEAD) : this.#lead - 1;
  }

  #fault({ length }: readonly unknown[], problem: string): BatchShapeError {
    return new BatchShapeError(this.#operator, length, length, `the call ${problem}`);
  }
}

/** Also as 32 bits have it, what is too large for those being Infinity there. */
function isVector(value: unknown): value is ArrayLike<number> {
  if (typeof value !== 'object' || value === null) return false;
  const { length } = value as ArrayLike<unknown>;
  if (typeof length !== 'number' || length < 1) return false;
  for (let i = 0; i < length; i++) {
    const number = (value as ArrayLike<unknown>)[i];
    if (typeof number !== 'number' || !Number.isFinite(Math.fround(number))) return false;
  }
  return true;
}
