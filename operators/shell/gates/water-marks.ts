import { FlowConfigError } from '../../options/errors.js';
import { count, countFromZero } from '../../options/options.js';

export interface WaterMarks {
  readonly highWater: number;
  readonly lowWater: number;
}

/** From which fill on a bounded queue is high, and from which down it is low again. @throws FlowConfigError */
export function waterMarks(operator: string, { highWater, lowWater }: Partial<WaterMarks>, maxQueued: number): WaterMarks {
  const high = highWater === undefined ? Math.max(1, Math.ceil((maxQueued * 4) / 5)) : count(operator, 'highWater', highWater);
  if (highWater !== undefined && high > maxQueued)
    throw new FlowConfigError(operator, 'highWater', `at most \`maxQueued\` (${String(maxQueued)})`, highWater);
  const low = lowWater === undefined ? Math.min(high - 1, Math.floor(maxQueued / 2)) : countFromZero(operator, 'lowWater', lowWater);
  if (lowWater !== undefined && low >= high)
    throw new FlowConfigError(operator, 'lowWater', `less than \`highWater\` (${String(high)})`, lowWater);
  return { highWater: high, lowWater: low };
}
