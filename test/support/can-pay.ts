/* oxlint-disable no-restricted-imports -- meters are not exported */
import type { Meter } from '../../operators/kernel/limits/limit.js';

/** Whether a lane can pay the cost now. */
export function canPay(meter: Pick<Meter, 'payableAt'>, cost: number, now: number, lane?: number): boolean {
  return meter.payableAt(cost, now, lane) <= now;
}
