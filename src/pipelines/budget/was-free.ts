import { evidenceOf } from '../../../operators/build.js';
import { isFlowError } from '../../../operators/index.js';
import { neverArrived } from '../never-arrived.js';

/** No right, no money, no such thing, too large, too many: refused before a model has read anything. Of 400 and 422 nobody knows: filters are models, too. */
const UNREAD: ReadonlySet<number | undefined> = new Set([401, 402, 403, 404, 405, 413, 429]);

/** Whether the provider bills nothing for a request that failed like this before anything of its answer was there. */
export function wasFree(error: unknown): boolean {
  if (isFlowError(error, 'FLOW_CONFIG_INVALID')) return true;
  const status = evidenceOf(error)
    .map((each) => each.status)
    .find((each) => each !== undefined);
  return status === undefined ? neverArrived(error) : UNREAD.has(status);
}
