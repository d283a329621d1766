import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type Axe from 'axe-core';
import type { Page } from 'playwright-core';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Look {
  /** Selects what is looked at, shadow roots included. */
  readonly within?: string;
  /** Nothing else of a page depends on its colour scheme. */
  readonly onlyColours?: boolean;
  /** Leaves out advice. */
  readonly onlySerious?: boolean;
}

/** What axe-core finds wrong, as lines. */
export async function axeFaults(page: Page, { within = 'html', onlyColours = false, onlySerious = false }: Look = {}): Promise<string[]> {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(source);
  const { violations } = await page.evaluate(([root, options]) => (globalThis as unknown as { axe: typeof Axe }).axe.run(root, options), [
    within,
    onlyColours ? { runOnly: ['color-contrast'] } : {},
  ] as const);
  return violations
    .filter(({ impact }) => !onlySerious || impact === 'serious' || impact === 'critical')
    .flatMap(({ id, help, nodes }) => nodes.map(({ target, html }) => `${id}: ${help}: ${target.join(' ')} ${html.slice(0, 100)}`));
}
