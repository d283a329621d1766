import { createAccount } from 'sluice';
import type {
  Credit,
  CreditCorrection,
  CreditCorrections,
  CreditLimit,
  CreditQuestion,
  CreditStore,
  CreditWait,
  MemoryStoreOptions,
  SharedOptions,
  SharedStore,
} from 'sluice/operators';
import { createLimiter, memoryStore, perMinute, shared, sharedStore } from 'sluice/operators';

// A store of one's own: it counts what it is asked, and hands on.
const asked: CreditLimit[] = [];
const memoryOptions: MemoryStoreOptions = {};
const inner: CreditStore = memoryStore(memoryOptions);
const booked: CreditCorrection[] = [];
const own: CreditStore = {
  ask: (question: CreditQuestion) => {
    asked.push(...question.limits);
    return inner.ask(question);
  },
  correct: (corrections: CreditCorrections) => {
    booked.push(...corrections.corrections);
    return inner.correct(corrections);
  },
  hold: (scope, ms) => inner.hold(scope, ms),
};
const store: SharedStore = sharedStore(own);
const account = createAccount({ concurrency: 8, tokensPerMinute: 200_000, store });
const options: SharedOptions = { scope: 'nightly', leastShare: 0.02, guardMs: 300 };
const limiter = createLimiter({ rates: shared(store, [perMinute('requests', 600)], options) });
export const leases = [account.tryAcquire({ cost: { tokens: 100 } }), limiter.tryAcquire()];
export const answers: (Credit | CreditWait)[] = [];
