import type { SchedulerLike } from 'rxjs';
import { check } from '../../../operators/build.js';
import { CLOSE_GRACE_MS } from '../../pipelines/connection.js';
import type { JobRules } from './call-job.js';
import type { CallPolicy } from './call-rules.js';
import { callPolicy } from './call-rules.js';

/** What surrounds each call that has a connection of its own. */
export interface ConnectionRules<Q> extends JobRules<Q> {
  /**
   * How long the permit of a call that was cut off (its reader left, it was aborted, it took too long) is kept, in ms: the server sees the
   * connection close a little later than we close it. Also how long a stream that has said its last word is read on for its end. 0 to 60000; 0 frees
   * the permit at once. @defaultValue 50
   */
  readonly closeGraceMs?: number;
}

/** What a connection does when an option is left out. */
export const CONNECTION_DEFAULTS = { closeGraceMs: CLOSE_GRACE_MS } as const;

/** The rules of calls whose permit is kept until their connection is free. */
export interface Held {
  readonly policy: CallPolicy;
  readonly closeGraceMs: number;
  readonly scheduler: SchedulerLike;
  /** Reports that a call was cancelled because its answer was collected. */
  abandoned(lane: string | undefined): void;
}

/** The same as `callPolicy`, for calls that are held. @throws FlowConfigError (`FLOW_CONFIG_INVALID`) */
export function heldRules<Q>(adapter: string, options: ConnectionRules<Q>, others: readonly string[]): Held {
  const policy = callPolicy(adapter, options, ['job', 'provider', 'closeGraceMs', ...others]);
  const onEvent = check.listener(adapter, 'onEvent', options.onEvent);
  return {
    policy,
    closeGraceMs: check.ratio(adapter, 'closeGraceMs', check.orDefault(options.closeGraceMs, CONNECTION_DEFAULTS.closeGraceMs), 0, 60_000),
    scheduler: check.scheduler(adapter, 'scheduler', options.scheduler),
    abandoned: (lane = check.defaultLane) => onEvent?.({ type: 'abandoned', operator: adapter, lane }),
  };
}
