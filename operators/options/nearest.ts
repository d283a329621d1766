/** The name that was probably meant; undefined when none is near enough. Underscores, hyphens and capitals make no difference. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const given = plain(name);
  let found: string | undefined;
  // One slip in three letters, and at most four: the search takes four to that power.
  for (let most = 0; !found && most < 5 && most * 3 <= given.length; most++) found = known.find((each) => isNear(given, plain(each), most));
  // `attempts` for `maxAttempts`, `maxConcurrency` for `concurrency`. Shorter names are inside too many others.
  return found ?? known.find((each) => (given[3] && plain(each).includes(given)) || (each[3] && given.includes(plain(each))));
}

function plain(name: string): string {
  return name.replace(/[_-]/g, '').toLowerCase();
}

/** Whether no more than `most` letters have to be added, removed, changed, or swapped with the next one. */
function isNear(from: string, to: string, most: number): boolean {
  const after = (skipped: number, of: number, left = most - 1): boolean => isNear(from.slice(skipped), to.slice(of), left);
  if (from === to) return true;
  if (from[0] === to[0]) return after(1, 1, most);
  if (most < 1) return false;
  return after(1, 0) || after(0, 1) || after(1, 1) || (from[0] === to[1] && from[1] === to[0] && after(2, 2));
}
