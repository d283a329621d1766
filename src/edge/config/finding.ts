/** Steps from the whole to one of its values: keys, and places in lists. */
export type Path = readonly (string | number)[];

/** Something that is wrong, before it has a place in a text. */
export interface Finding {
  readonly path: Path;
  readonly expected: string;
  readonly got: string;
}

/** `stages[1].concurrency`; empty for the whole. */
export function showPath(path: Path): string {
  return path.reduce<string>((shown, step) => {
    if (typeof step === 'number') return `${shown}[${String(step)}]`;
    return shown === '' ? step : `${shown}.${step}`;
  }, '');
}
