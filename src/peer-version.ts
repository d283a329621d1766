/**
 * Says at import that a package beside this one is too old, where its use would fail later and oddly. A newer one than was tested may work: of
 * that the package manager warns.
 *
 * @param found - its version, when it says one
 * @throws Error when it cannot be used
 */
export function needsPeer(entry: string, peer: string, range: string, isUsable: boolean, found?: string): void {
  if (isUsable) return;
  const what = found === undefined ? 'an older one' : found;
  throw new Error(`${entry} needs ${peer} ${range}, and found ${what}. Install it: npm install "${peer}@${range}"`);
}

export function isAtLeast(version: string, major: number, minor = 0): boolean {
  const [foundMajor = 0, foundMinor = 0] = version.split('.').map(Number);
  return foundMajor > major || (foundMajor === major && foundMinor >= minor);
}
