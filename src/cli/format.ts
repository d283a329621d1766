/** Numbers as people read them; the same in every locale. */

export function formatCount(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `1 call`, `2 calls`. */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${formatCount(count)} ${Math.round(count) === 1 ? one : several}`;
}

export function formatShare(share: number): string {
  return `${String(Math.round(share * 100))} %`;
}

/** `-` when there is no value. */
export function formatMs(ms: number | undefined): string {
  if (ms === undefined) return '-';
  return ms < 10_000 ? `${formatCount(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Three digits that count. */
export function formatRate(value: number): string {
  if (value === Infinity) return 'any';
  return value >= 1000 ? formatCount(value) : String(Number(value.toPrecision(3)));
}
