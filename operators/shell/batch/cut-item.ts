import type { Batch, CutJob, JobSettler } from '../../kernel/machine/job.js';
import { ACCEPTED, Job } from '../../kernel/machine/job.js';
import { ask, weightOf } from '../../options/ask.js';
import { ItemTooHeavyError } from '../../options/errors.js';
import type { PartRules, SplitItem } from '../../options/oversize.js';

/** Parts are never cut again: one that is still too heavy travels alone. */
export function cut<T, R>(this: SplitItem<T, R>, operator: string, job: Job<T, R>, { weigh, id }: PartRules<T>, heaviest: number): void {
  const parts = this.into(operator, job.input).map((input, i) => {
    const weight = weightOf(operator, weigh, input);
    if (weight > heaviest) throw new ItemTooHeavyError(operator, weight, heaviest);
    const part = new Job<T, R>(input);
    part.state = ACCEPTED;
    part.index = job.index;
    part.lane = job.lane;
    part.weight = weight;
    part.acceptedAt = job.acceptedAt;
    part.extras.deadlineAt = job.deadlineAt;
    part.extras.key = job.key;
    part.extras.name = id ? ask(operator, 'id', id, input) : `${job.id}.${String(i)}`;
    return part;
  });
  const whole = new CutItem(operator, this, job, parts);
  for (const one of [job, ...parts]) one.extras.whole = whole;
}

/** An item in parts, until all of them have their values. */
export class CutItem<T, R> implements CutJob<T, R> {
  private readonly values: R[] = [];
  private missing: number;
  private lastCall: unknown = undefined;

  constructor(
    private readonly operator: string,
    private readonly rule: SplitItem<T, R>,
    readonly job: Job<T, R>,
    readonly parts: readonly Job<T, R>[],
  ) {
    this.missing = parts.length;
  }

  /** It is one call for the item, however many of its parts are in it. */
  sent(batch: Batch<T, R>): void {
    if (this.lastCall !== batch) this.job.attempts++;
    this.lastCall = batch;
  }

  settled(machine: JobSettler<T, R>, part: Job<T, R>, failed: boolean, outcome: unknown, counts: boolean): void {
    const { job, parts, values } = this;
    if (job.isDone) return;
    if (failed) {
      machine.settle(job, true, outcome, counts);
      for (const other of parts) machine.remove(other);
      return;
    }
    values[parts.indexOf(part)] = outcome as R;
    if (--this.missing > 0) return;
    let joined: unknown;
    let isLost = false;
    try {
      joined = this.rule.join(this.operator, values);
    } catch (error) {
      joined = error;
      isLost = true;
    }
    // Joining asks a callback, which may have given the item up.
    if (!(job.isDone as boolean)) machine.settle(job, isLost, joined);
  }
}
