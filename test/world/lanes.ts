import type { LaneOptions } from '../../operators/index.js';
import type { World } from './world.js';

/** A lane; with bounds of its own, where more may come than it has room for. */
export function lane({ choose }: World, name: 'urgent' | 'later', isPulled = false): LaneOptions {
  return {
    name,
    ...(!isPulled &&
      choose(`${name} is bounded`, false, false, true) && {
        maxQueued: choose(`${name} maxQueued`, 1, 0, 2),
        overflow: choose(`${name} overflow`, 'dropNewest', 'error', 'dropOldest', 'latest', 'dropLowest'),
      }),
    ...(choose(`${name} travels alone`, false, false, true) && { piggyback: false }),
    ...(choose(`${name} has a floor`, false, true) && { floor: name === 'urgent' ? 0.2 : 0.4 }),
    share: choose(`${name} share`, 1, 3, 0.5),
  };
}
