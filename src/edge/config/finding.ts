/** Steps from the whole to one of its values: keys, and places in lists. */
export type Path = readonly (string | number)[];

/** Something that is wrong, before it has a place in a text. */
export interface Finding extends Told {
  readonly path: Path;
}

export interface Told {
  /** What the value has to be; how to repair it, when `got` is the problem in words. */
  readonly expected: string;
  readonly got: string;
  /** Whether the two are sentences of their own. */
  readonly isSentence?: boolean;
}

/** A problem, without capital and stop, and its repair, a whole sentence. */
export function told(problem: string, repair: string): Told {
  return { expected: repair, got: problem, isSentence: true };
}

/** `stages[1].concurrency`; empty for the whole. */
export function showPath(path: Path): string {
  return path.reduce<string>((shown, step) => {
    if (typeof step === 'number') return `${shown}[${String(step)}]`;
    return shown === '' ? step : `${shown}.${step}`;
  }, '');
}
