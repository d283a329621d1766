import type { SchedulerAction, Subscription } from 'rxjs';
import { VirtualTimeScheduler } from 'rxjs';

/** A virtual clock that can be set back, and remembers every delay it was asked for. */
export class CountingScheduler extends VirtualTimeScheduler {
  readonly delays: number[] = [];
  /** What the clock shows beside the time that has really passed. */
  offset = 0;

  override now = (): number => this.frame + this.offset;

  override schedule<T>(work: (this: SchedulerAction<T>, state?: T) => void, delay = 0, state?: T): Subscription {
    this.delays.push(delay);
    return super.schedule(work, delay, state);
  }
}
