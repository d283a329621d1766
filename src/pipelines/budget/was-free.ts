import { evidenceOf } from '../../../operators/build.js';
import { isFlowError } from '../../../operators/index.js';
import { neverArrived } from '../never-arrived.js';

/** No right, no money, no such thing, too large, too many: refused before a model has read anything. 400 and 422 may cost something: filters are models, too. */
const UNREAD: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 413, 429]);
/** A gateway has waited in vain: the model behind it may have answered. 520 to 527 are those of Cloudflare. */
const LOST_BEHIND_GATEWAY: ReadonlySet<number> = new Set([502, 504, 520, 521, 522, 523, 524, 525, 526, 527]);

/** Whether the provider bills nothing for a request that failed like this before anything of its answer was there. */
export function wasFree(error: unknown): boolean {
  if (isFlowError(error, 'FLOW_CONFIG_INVALID')) return true;
  const status = evidenceOf(error)
    .map((each) => each.status)
    .find((each) => each !== undefined);
  if (status === undefined) return neverArrived(error);
  return UNREAD.has(status) || (status >= 500 && !LOST_BEHIND_GATEWAY.has(status));
}
