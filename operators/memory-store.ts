import type { SchedulerLike } from 'rxjs';
import { noop } from 'rxjs';
import { CreditLedger } from './kernel/credit/credit-ledger.js';
import type { SharedStore } from './options/credit-store.js';
import { checked } from './options/options.js';
import { sharedStore } from './shared.js';
import { Alarm, schedulerOption } from './shell/time/alarm.js';

/**
 * Where a store in memory takes the time from.
 * @beta
 */
export interface MemoryStoreOptions {
  /** @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/**
 * A store of credit in the memory of this process, for several limiters in it, and for tests: it answers at once, and by the clock of its `scheduler`.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createLimiter, memoryStore, perMinute, shared } from 'sluice/operators';
 *
 * const rates = shared(memoryStore(), [perMinute('tokens', 60_000)]);
 * const [one, other] = [createLimiter({ rates }), createLimiter({ rates })];
 * one.tryAcquire({ cost: { tokens: 900 } }) !== undefined; // => true
 * other.tryAcquire({ cost: { tokens: 900 } }) !== undefined; // => false
 * ```
 */
export function memoryStore(options: MemoryStoreOptions = {}): SharedStore {
  const { scheduler } = checked('memoryStore', options, { scheduler: undefined }, { scheduler: schedulerOption });
  // Its time does not go back where that of the scheduler does.
  const clock = new Alarm(scheduler, noop);
  const ledger = new CreditLedger({ isLost: false });
  return sharedStore({
    ask: (question) => ledger.ask(question, clock.now()),
    correct: (corrections) => {
      ledger.correct(corrections, clock.now());
    },
    hold: (scope, ms) => {
      ledger.hold(scope, ms, clock.now());
    },
  });
}
