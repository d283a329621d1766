import * as zod from 'zod';
import { needsPeer } from '../peer-version.js';

/**
 * Makes a schema, or what is made of schemas. That happens while modules load, so the version is checked before each of them. Files import zod itself, of
 * which a bundle then has only what they use.
 *
 * @throws Error when zod is an older one
 */
export function schema<T>(make: () => T): T {
  needsPeer('sluice/edge', 'zod', '^4.0.0', (zod as { readonly $brand?: symbol }).$brand !== undefined);
  return make();
}
