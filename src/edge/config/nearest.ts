/** The word that was probably meant; undefined when none is near enough. Underscores, hyphens and capitals make no difference. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  // About one slip in three letters.
  let least = Math.floor(plain(word).length / 3) + 1;
  for (const candidate of known) {
    const distance = slips(plain(word), plain(candidate));
    if (distance >= least) continue;
    best = candidate;
    least = distance;
  }
  return best;
}

function plain(word: string): string {
  return word.replaceAll(/[_-]/g, '').toLowerCase().slice(0, 60);
}

/** Letters to put in, leave out, change, or swap with the next one (optimal string alignment). */
function slips(from: string, to: string): number {
  let before: number[] = [];
  let row = Array.from({ length: to.length + 1 }, (_, j) => j);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const isSame = from[i - 1] === to[j - 1];
      const isSwapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      next.push(
        Math.min(
          (next[j - 1] ?? 0) + 1,
          (row[j] ?? 0) + 1,
          (row[j - 1] ?? 0) + (isSame ? 0 : 1),
          isSwapped ? (before[j - 2] ?? 0) + 1 : Infinity,
        ),
      );
    }
    before = row;
    row = next;
  }
  return row[to.length] ?? 0;
}
