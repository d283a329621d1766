/** The items of a call that an error names by position or by id, when each is there and none is named twice. */
export function blamed<J extends { readonly id: string }>(
  names: readonly (string | number)[] | undefined,
  call: readonly J[],
): ReadonlySet<J> | undefined {
  if (names === undefined || names.length === 0) return undefined;
  const items = names.map((name) => {
    if (typeof name === 'number') return call[name];
    const [first, ...others] = call.filter(({ id }) => id === name);
    return others.length === 0 ? first : undefined;
  });
  const found = new Set(items.filter((item) => item !== undefined));
  return found.size === names.length ? found : undefined;
}
