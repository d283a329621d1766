import type { Observable } from 'rxjs';
import { batchMap, createLimiter, type Bidder as OperatorsBidder, type Permits as OperatorsPermits, type Settled } from 'sluice/operators';
import type { Bidder, Outcome, Permit, Permits, Place } from 'sluice/operators/permits';

// Whoever asks
const limiter = createLimiter({ concurrency: 2 });
const outcome: Outcome = 'unused';
const bidder: Bidder = {
  bid: (affordable) => Math.min(10, affordable),
  granted: (permit: Permit) => {
    permit.settle({ inputTokens: 5 });
    permit.release(outcome);
  },
  refused: (error) => {
    console.error(error);
  },
};
const place: Place = limiter.enlist(bidder);
place.poke();
place.withdraw();

// Permits of one's own, in place of a limiter
class Unlimited implements Permits {
  readonly concurrency = Infinity;
  readonly executing = 0;
  readonly load = 0;
  readonly tokenCapacity = Infinity;
  readonly borrows = false;
  enlist({ granted }: Bidder): Place {
    granted({ release: () => undefined, releaseAfter: () => undefined, settle: () => undefined, observe: () => undefined });
    return { poke: () => undefined, withdraw: () => undefined };
  }
  penalize(): void {
    // Nothing waits.
  }
}
const own: Permits = new Unlimited();
export const doubled = (numbers: Observable<number>): Observable<Settled<number, number>> =>
  numbers.pipe(batchMap((items) => Promise.resolve(items.map((item) => 2 * item)), { limiter: own }));
same<OperatorsPermits>()(own);
same<OperatorsBidder>()(bidder);
