import type { Gate } from '../../kernel/limiter/gate.js';
import type { Chain } from '../../kernel/queues/line.js';
import type { Teller } from '../../options/events.js';
import type { Shutdown } from '../calls/shutdown.js';
import { HandleShutdown } from '../calls/shutdown.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { Lease, RunningWork, Ticket } from './ticket.js';

/** A limiter that can be drained and closed. */
interface EndingLimiter {
  readonly settings: LimiterSettings;
  readonly gate: Gate<Ticket, Lease>;
  readonly shutdown: Shutdown;
  readonly running: Chain<RunningWork>;
  /** Limiters under this one that have something waiting or running. */
  readonly children: ReadonlySet<EndingLimiter>;
  readonly tell: Teller | undefined;
  readonly isBusy: boolean;
  readonly queued: number;
  isAborting: boolean;
  loop(): void;
}

/** The end of a limiter. */
export function endOf(limiter: EndingLimiter): Shutdown {
  return new HandleShutdown({
    operator: NAME,
    scheduler: limiter.settings.scheduler,
    stop: () => {
      for (const child of [...limiter.children]) void child.shutdown.drain();
      finish(limiter);
    },
    abort: (error) => {
      abort(limiter, error);
    },
  });
}

/** Finishes a shutdown when everything accepted before it is over. */
export function finish(limiter: EndingLimiter): void {
  if (!limiter.isAborting && !limiter.isBusy) finished(limiter);
}

function finished(limiter: EndingLimiter): void {
  const { gate, isAborting, shutdown, tell } = limiter;
  const end = (): void => {
    if (shutdown.finish()) tell?.({ type: 'drained' });
  };
  // Shared credit goes back before it is over. Whoever closes it does not wait for that.
  if (!gate.rates?.credit?.end(end) || isAborting) end();
}

function abort(limiter: EndingLimiter, error: unknown): void {
  const { children, gate, running, shutdown } = limiter;
  stopGranting(limiter);
  const abandoned = gate.lapsed(Infinity);
  shutdown.count('aborted', gate.leases - abandoned.length);
  shutdown.count('dropped', limiter.queued);
  for (const child of [...children]) child.shutdown.close(error);
  for (const ticket of gate.all()) {
    if (!ticket.isWaiting) continue;
    gate.leave(ticket);
    ticket.refused(error);
  }
  for (const lease of abandoned) lease.release('cancelled');
  for (const work of running.members) work.failWith(error);
  limiter.loop();
  finished(limiter);
}

/** Here and in child limiters, before any ticket is refused. */
function stopGranting(limiter: EndingLimiter): void {
  limiter.isAborting = true;
  for (const child of limiter.children) stopGranting(child);
}
