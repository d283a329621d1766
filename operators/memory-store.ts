import type { SchedulerLike } from 'rxjs';
import { noop } from 'rxjs';
import { CreditLedger } from './kernel/credit/credit-ledger.js';
import { isSavedCredit } from './kernel/credit/saved-credit.js';
import type { Credit, CreditCorrections, CreditQuestion, CreditWait, SavedCredit, SharedStore } from './options/credit-store.js';
import { check, checked, flag, optional } from './options/options.js';
import { sharedStore } from './shared.js';
import { Alarm, schedulerOption } from './shell/time/alarm.js';

/**
 * How a store in memory begins, and where it takes the time from.
 * @beta
 */
export interface MemoryStoreOptions {
  /** @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /**
   * Whether a store before this one, whose state is lost, may have granted something. Windows of up to 10 minutes then begin with nothing saved up and come in
   * evenly, until what it granted has left them. @defaultValue false
   */
  readonly startsEmpty?: boolean;
  /**
   * Where it continues: what `save` has returned, maybe in another process. Time continues from there also where the clock shows less.
   * @defaultValue with nothing granted
   */
  readonly restore?: SavedCredit;
}

/**
 * A store of credit that answers at once.
 * @beta
 */
export interface MemoryStore extends SharedStore {
  ask(question: CreditQuestion): Credit | CreditWait;
  correct(corrections: CreditCorrections): void;
  hold(scope: string, ms: number): void;
  /** Its state, for `restore`: a store that begins with it answers what follows as this one does. */
  save(): SavedCredit;
}

const CHECKS = /* @__PURE__ */ (() => ({
  scheduler: schedulerOption,
  startsEmpty: flag,
  restore: optional(check<SavedCredit>('the result of `save()`', isSavedCredit)),
}))();

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
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const { restore, scheduler, startsEmpty } = checked('memoryStore', options, { scheduler: undefined, startsEmpty: false }, CHECKS);
  // Its time does not go back where that of the scheduler does.
  const clock = new Alarm(scheduler, noop);
  const behindMs = restore ? Math.max(0, restore.at - clock.now()) : 0;
  const now = (): number => clock.now() + behindMs;
  const ledger = new CreditLedger({ isLost: startsEmpty, saved: restore });
  const store = {
    ask: (question: CreditQuestion) => ledger.ask(question, now()),
    correct: (corrections: CreditCorrections) => {
      ledger.correct(corrections, now());
    },
    hold: (scope: string, ms: number) => {
      ledger.hold(scope, ms, now());
    },
  };
  return { ...sharedStore(store), ...store, save: () => ledger.save(now()) };
}
