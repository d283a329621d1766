import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Package {
  readonly folder: string;
  readonly version: string;
}

/** The package this code belongs to, whether it runs from `src/` or from `dist/`. */
export function ownPackage(): Package {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const manifest = readManifest(folder);
    if (manifest?.name === 'sluice') return { folder, version: manifest.version };
    if (folder === dirname(folder)) throw new Error('sluice: package.json not found above the command');
  }
}

function readManifest(folder: string): { name: string; version: string } | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { name: string; version: string };
  } catch {
    return undefined;
  }
}
