import type { Job } from '../kernel/machine/job.js';
import { DONE, NEW } from '../kernel/machine/job.js';
import { leave, promote } from '../kernel/machine/leave.js';
import type { BatchConfig, BatchWork } from './batch-options.js';
import { BatchShell } from './batch-shell.js';
import { laneAt } from './describe-item.js';
import type { Item } from './loads.js';

/** The batcher, as its shell sees it. */
export interface LoadOwner<T, R> {
  settled(item: Item<T, R>): void;
  finished(): void;
  failed(error: unknown): void;
  /** There may be room for more. */
  admit(): void;
}

/** A batch shell whose items are loads, which may leave. */
export class LoadShell<T, R> extends BatchShell<T, R> {
  private isTogether = false;

  constructor(
    config: BatchConfig<T>,
    work: BatchWork<T, R>,
    private readonly owner: LoadOwner<T, R>,
  ) {
    super(config, work);
  }

  protected settled(job: Job<T, R>): void {
    // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- all that is settled here was made here
    this.owner.settled(job as Item<T, R>);
  }

  protected finished(): void {
    this.owner.finished();
  }

  protected failed(error: unknown): void {
    this.owner.failed(error);
  }

  protected override hasRoom(): void {
    this.owner.admit();
  }

  /** What the waiting items wait for. */
  get heldBy(): 'slot' | 'rate' | 'window' {
    if (this.waitsIn === -1) return 'window';
    return this.permits.executing >= this.permits.concurrency ? 'slot' : 'rate';
  }

  /** Makes several changes as one step: nothing is sent or handed out in between. */
  together(change: () => void): void {
    this.isTogether = true;
    this.step(change);
    this.isTogether = false;
    this.run();
    this.runEffects();
  }

  /** @throws LaneUnknownError */
  checkLane(name: string): void {
    laneAt(this.operator, this.config.queue, name);
  }

  /** Moves what waits of an item to a more urgent lane. */
  promote(item: Item<T, R>, lane: string): void {
    promote(this.machine, item, laneAt(this.operator, this.config.queue, lane));
    this.run();
  }

  /** Gives an item up: it is not settled any more, unless it is just being accepted. A call is stopped when its last member has left. */
  leave(item: Item<T, R>): void {
    if (item.state === DONE || item.state === NEW) return;
    leave(this.machine, item);
    this.run();
    // Before this returns, even if results are being handed out.
    if (!this.isTogether) this.runEffects();
  }
}
