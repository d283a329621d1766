/** Positions named by index or by id; -1 for a name that is in neither, and for an id that several have. */
export function positionsOf(names: readonly (string | number)[], ids: () => readonly string[], size: number): number[] {
  return names.map((name) => {
    if (typeof name === 'number') return Number.isInteger(name) && name >= 0 && name < size ? name : -1;
    const all = ids();
    const position = all.indexOf(name);
    return position === all.lastIndexOf(name) ? position : -1;
  });
}

/** The positions an error names, when each is in range and none is doubled. */
export function trustedBlame(blame: readonly number[] | undefined, size: number): ReadonlySet<number> | undefined {
  if (blame === undefined || blame.length === 0) return undefined;
  const seen = new Set(blame);
  if (seen.size !== blame.length) return undefined;
  return blame.every((i) => Number.isInteger(i) && i >= 0 && i < size) ? seen : undefined;
}
