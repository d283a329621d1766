/**
 * Says at import that a package beside this one is none of the versions that were tested, where its use would fail later and oddly. The package manager
 * does not say it: what is optional must not stop an installation.
 *
 * @param range - as in `supportedPeers` of `package.json`
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
