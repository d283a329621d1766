import type { OrderedPlace } from '../queues/reorder-buffer.js';
import { evictable, isUnbounded, refusal, room } from '../waiting/bounds.js';
import { Deadlines, LongMark } from '../waiting/deadlines.js';
import type { Job } from './job.js';
import { ACCEPTED, DONE, WAITING } from './job.js';
import type { MachineState } from './machine-state.js';
import type { Arrival } from './step.js';
import { CLOSED, NOTHING, OPEN, ROUND } from './step.js';

/** Accepts an item that is like all others. It is queued once `enter` is called, unless it has left by then. */
export function stamp<T, R>(machine: MachineState<T, R>, job: Job<T, R>, now: number): void {
  machine.now = now;
  machine.entering++;
  job.index = machine.accepted++;
  job.acceptedAt = now;
  job.lane = machine.rules.queue.lanes.length - 1;
  job.state = ACCEPTED;
}

/** The item stands in this place in the order of results. */
export function takePlace<T, R>(job: Job<T, R>, taken: OrderedPlace<Job<T, R>>): void {
  job.extras.place = taken;
}

/** Queues an accepted item, or all its parts; it may get its result at once. */
export function enter<T, R>(machine: MachineState<T, R>, job: Job<T, R>): Arrival {
  const { host, phase } = machine;
  const { more, lane } = job;
  machine.entering--;
  if (job.state !== ACCEPTED) return phase === OPEN ? NOTHING : ROUND;
  if (phase !== CLOSED) host.tell?.({ type: 'accepted', lane: machine.laneName(lane), queued: machine.queued, seq: job.index });
  const refused = machine.refusal ?? more?.fault;
  if (refused) {
    machine.settle(job, true, refused.error);
    return ROUND;
  }
  job.state = WAITING;
  for (const part of (more && job.parts) ?? [job]) enqueue(machine, part);
  return job.isDone ? ROUND : machine.arrived(lane, more && more.deadlineAt < Infinity);
}

function enqueue<T, R>(machine: MachineState<T, R>, job: Job<T, R>): void {
  const { host, rules } = machine;
  // Dropped together with another part of its item, for which there was no room.
  if (job.isDone || !(rules.isPulled || makeRoom(machine, job))) return;
  add(machine, job);
  if (host.tell && isUnbounded(rules.bounds) && (machine.long ??= new LongMark()).isReachedAt(machine.queued))
    host.tell({ type: 'queueLong', lane: machine.laneName(job.lane), queued: machine.queued });
}

/** Queues an item for which there is room. */
export function add<T, R>(machine: MachineState<T, R>, job: Job<T, R>): void {
  const { lane, more, weight } = job;
  job.state = WAITING;
  machine.lines.push(job);
  machine.count(lane, 1);
  machine.fresh++;
  machine.freshWeight += weight;
  if (more && more.deadlineAt < Infinity) (machine.deadlines ??= new Deadlines(({ state }) => state === DONE)).add(more.deadlineAt, job);
}

/** Evicts items for one more; false when that is the one to go. Results that an order holds back take up room as well. */
function makeRoom<T, R>(machine: MachineState<T, R>, job: Job<T, R>): boolean {
  const { heldBack, host, inLane, lines, queued, rules } = machine;
  const { lane } = job;
  const refused = refusal(rules.bounds, queued + heldBack, lane, inLane[lane]);
  if (!refused) return true;
  const { policy } = refused;
  const error = host.overflowError(refused);
  const evicted = evictable(lines, lane, rules.bounds, refused) as readonly Job<T, R>[];
  for (const victim of evicted.length > 0 ? evicted : [job]) {
    if (victim.isDone) continue;
    host.tell?.({ type: 'dropped', lane: machine.laneName(victim.lane), policy, seq: victim.index });
    if (victim !== job) machine.detach(victim);
    machine.settle(victim, true, error, false);
  }
  if (policy === 'error') host.overflowed(error);
  return !job.isDone;
}

/** How many more are let in. */
export function roomOf<T, R>({ heldBack, queued, results, rules }: MachineState<T, R>): number {
  return room(rules.bounds, queued + heldBack + results.length);
}
