import { FlowConfigError } from './options/errors.js';
import type { Lease, LeaseHolder } from './options/limiter.js';
import { nest, setHolder } from './shell/limiter/nesting.js';
import type { Lease as OwnLease, Ticket } from './shell/limiter/ticket.js';

/**
 * Says that work which holds this lease asks for another one, as `holder` of a job. With all slots held by work that waits in this way nobody
 * would ever be served: the newest such job is refused with `NestedAcquireError` (`FLOW_NESTED_ACQUIRE`). A ring over several limiters or keys
 * is seen as well, when each job on it says which lease its work holds.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when it is no lease of a limiter.
 * @example
 * ```ts
 * import { createLimiter, heldBy, isFlowError } from 'sluice/operators';
 *
 * const limiter = createLimiter({ concurrency: 1 });
 * const outer = limiter.runAsync(({ lease }) => limiter.runAsync(() => 'never', { holder: heldBy(lease) }));
 * const error = await outer.catch((thrown: unknown) => thrown);
 * isFlowError(error, 'FLOW_NESTED_ACQUIRE'); // => true
 * ```
 */
export function heldBy(lease: Lease): LeaseHolder {
  // One of another copy of this package is as good.
  if (!('isReleased' in Object(lease))) throw new FlowConfigError('heldBy', 'lease', 'a lease of a limiter', lease);
  const held = lease as unknown as OwnLease;
  return {
    granted: (inner: OwnLease) => {
      setHolder(inner, held);
    },
    waits: (ticket: Ticket) => {
      nest(ticket, held);
    },
  } as LeaseHolder;
}
