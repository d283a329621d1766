import type { SchedulerLike, Subscription } from 'rxjs';
import { asapScheduler } from 'rxjs';
import type { BatchHost, BatchNote } from '../kernel/machine/batch-machine.js';
import { BatchMachine } from '../kernel/machine/batch-machine.js';
import type { Job } from '../kernel/machine/job.js';
import { ACCEPTED } from '../kernel/machine/job.js';
import { isAmount, unusable } from '../options/answers.js';
import { ask, weightOf, whenToClose } from '../options/ask.js';
import { ItemTooHeavyError, LaneUnknownError } from '../options/errors.js';
import { teller } from '../options/events.js';
import type { SplitAndJoin } from '../options/oversize.js';
import type { Permits, Place } from '../options/permits.js';
import { Alarm } from './alarm.js';
import type { BatchConfig } from './batch-options.js';
import { Slots } from './slots.js';

/** Longest that a promise which was given up keeps its slot, in ms. */
const ABORT_GRACE_MS = 1000;

/** The first half of a shell: takes items in, asking callbacks about each, and gathers those of one frame. */
export abstract class BatchIntake<T, R> {
  readonly operator: string;
  readonly tell: ((note: BatchNote) => void) | undefined;
  readonly machine: BatchMachine<T, R>;
  readonly permits: Permits;
  readonly say: ReturnType<typeof teller>;
  protected readonly own: Slots | undefined;
  protected readonly alarm: Alarm;
  private readonly frames: SchedulerLike;
  /** Whether all items are alike: nothing is asked about them, none is too heavy, and results keep no order. */
  private readonly isUniform: boolean;
  /** How many more items may come before anything has to be looked at. */
  protected spare = 0;
  /** Items about which callbacks are being asked: nothing is over before they are in. */
  protected entering = 0;
  /** It has been left. */
  protected isOver = false;
  protected isBusy = false;
  /** Its place in the queue for permits, the lane it has there, and what the batch that was bid for may weigh. */
  protected place: Place | undefined = undefined;
  protected placeLane = -1;
  /** Ends the current frame; until then a batch that is not full waits for the rest of its burst. */
  private frame: Subscription | undefined = undefined;

  private readonly frameEnded = (): void => {
    this.landFrame();
    this.run();
  };

  constructor(readonly config: BatchConfig<T>) {
    const { operator, scheduler, limiter, concurrency, weigh, maxWeight, order, queue, id, closeWhen, deadlineMs } = config;
    this.operator = operator;
    this.alarm = new Alarm(scheduler, () => {
      this.run();
    });
    this.say = teller(operator, config, () => this.alarm.now());
    const { say } = this;
    if (say) {
      this.tell = (note) => {
        this.act(() => {
          say(note);
        });
      };
    }
    this.own = limiter ? undefined : new Slots(concurrency, scheduler, ABORT_GRACE_MS);
    this.permits = limiter ?? (this.own as Slots);
    this.frames = config.frames;
    this.machine = new BatchMachine<T, R>(config, this as unknown as BatchHost<T, R>);
    this.isUniform =
      (weigh ?? order ?? id ?? queue.laneOf ?? queue.keyOf ?? closeWhen) === undefined && deadlineMs === Infinity && maxWeight >= 1;
  }

  /** Does what there is to do. */
  protected abstract run(): void;
  /** Does something whole before anything is made of it; then the outside hears of it. */
  protected abstract step(change: () => void): void;
  /** To be done to the outside, once this step is over. */
  abstract act(run: () => void): void;
  /** Whether something is to be done to the outside. */
  protected abstract hasActs(): boolean;

  /** Accepts one item. It will be settled exactly once. */
  add(job: Job<T, R>): void {
    if (this.spare > 0) {
      this.spare--;
      this.machine.join(job);
    } else {
      this.accept(job);
      this.submit(job);
      this.spare = this.spareRoom();
    }
  }

  /** The first half of `add`, in which callbacks are asked about the item. */
  accept(job: Job<T, R>, lane?: string, deadlineMs?: number): void {
    const { machine } = this;
    this.spare = 0;
    this.entering++;
    // The items of a frame came at one time: to look at the clock costs more than to queue one.
    if (!machine.isFramed || this.frames !== asapScheduler) machine.now = this.alarm.now();
    if (this.isUniform && lane === undefined && deadlineMs === undefined) machine.stamp(job);
    else this.describe(job, lane, deadlineMs);
  }

  /** The second half of `add`; queues nothing for an item that was given up in between. */
  submit(job: Job<T, R>): void {
    const { machine } = this;
    let changes = false;
    if (job.state === ACCEPTED && !this.isOver) {
      this.tellAccepted(job);
      changes = !machine.enter(job) || this.changes(job);
    }
    this.entering--;
    if (changes || machine.isFinishing) this.run();
    else if (!this.isBusy && this.hasActs()) this.step(() => undefined);
  }

  private tellAccepted({ lane, index }: Job<T, R>): void {
    if (this.say === undefined) return;
    const { say, machine } = this;
    const note = { type: 'accepted', lane: machine.laneName(lane), queued: machine.queued, seq: index } as const;
    this.act(() => {
      say(note);
    });
  }

  /** Whether there is something to do because this item has come. */
  private changes({ lane, acceptedAt, deadlineAt }: Job<T, R>): boolean {
    // With a place in the queue for permits, or a frame to wait for, one more item behind others changes nothing yet.
    const waits = this.place ? lane >= this.placeLane : this.waitsForFrame(acceptedAt);
    return this.isBusy || !waits || deadlineAt !== Infinity || this.config.closeWhen !== undefined || !this.machine.isIdle;
  }

  /** Whether an item that has come waits for the end of its frame. */
  private waitsForFrame(acceptedAt: number): boolean {
    const { machine } = this;
    if (machine.isFull) return false;
    if (!machine.isFramed) {
      machine.isFramed = true;
      machine.now = acceptedAt;
      const frame = this.frames.schedule(this.frameEnded, 0);
      // Some schedulers (`queueScheduler`) do it at once.
      if (machine.isFramed as boolean) this.frame = frame;
    }
    return machine.isFramed;
  }

  protected landFrame(): void {
    this.frame?.unsubscribe();
    this.frame = undefined;
    this.machine.isFramed = false;
  }

  /** While a frame is open, nothing has to be looked at as long as items are all alike, fill no batch, and nobody hears of them. */
  private spareRoom(): number {
    const { machine } = this;
    const isQuiet = machine.isFramed && !machine.isFinishing && !this.isBusy && this.place === undefined && this.say === undefined;
    return isQuiet && this.isUniform && machine.refusal === undefined ? machine.spare : 0;
  }

  /** Asks the callbacks. Never throws: what is wrong with an item is its `fault`. */
  private describe(job: Job<T, R>, laneName: string | undefined, deadlineMs: number | undefined): void {
    const { machine, operator } = this;
    const { order, id } = this.config;
    const at = machine.now;
    // What `key` sends in its turn is accepted before the item, and has its place before it.
    job.index = machine.accepted;
    try {
      if (order) machine.place(job, order.keyOf && ask(operator, 'key', order.keyOf, job.input));
    } catch (error) {
      this.spoil(job, error);
    }
    job.index = machine.accepted++;
    job.acceptedAt = at;
    try {
      if (id && !job.more?.fault) job.extras.name = ask(operator, 'id', id, job.input);
      if (!job.more?.fault) this.measure(job, laneName, deadlineMs);
    } catch (error) {
      this.spoil(job, error);
    }
    job.state = ACCEPTED;
  }

  /** Something about it went wrong: of what was said of it only its name and its place stand. */
  private spoil(job: Job<T, R>, error: unknown): void {
    const { name, place } = job.extras;
    job.more = undefined;
    job.lane = this.config.queue.lanes.length - 1;
    job.weight = 0;
    job.extras.name = name;
    job.extras.place = place;
    job.extras.fault = { error };
  }

  private measure(job: Job<T, R>, laneName: string | undefined, deadlineMs: number | undefined): void {
    const { operator, queue, weigh, deadlineMs: within, closeWhen, oversize, maxWeight } = this.config;
    const { input, acceptedAt } = job;
    const { machine } = this;
    const named = laneName ?? (queue.laneOf && ask(operator, 'lane', queue.laneOf, input));
    const weight = weightOf(operator, weigh, input);
    const waitMs = deadlineMs ?? (typeof within === 'function' ? ask(operator, 'deadlineMs', within, input) : within);
    if (!isAmount(waitMs)) throw unusable(operator, 'deadlineMs', 'a number of ms >= 0', waitMs);
    job.lane = this.laneAt(named);
    job.weight = weight;
    if (queue.keyOf) job.extras.key = ask(operator, 'key', queue.keyOf, input);
    if (waitMs !== Infinity) job.extras.deadlineAt = acceptedAt + waitMs;
    const heaviest = this.look();
    if (weight > machine.aim && typeof oversize === 'object')
      (oversize as SplitAndJoin<T, R>).cut(operator, job as never, this.config, heaviest);
    else if (weight > heaviest) throw new ItemTooHeavyError(operator, weight, heaviest);
    else if (weight > maxWeight && oversize === 'reject') throw new ItemTooHeavyError(operator, weight, Math.min(maxWeight, heaviest));
    if (closeWhen) job.extras.closes = whenToClose(operator, closeWhen, input, openBatch(machine, job));
  }

  /** @throws LaneUnknownError */
  protected laneAt(name: string | undefined): number {
    const { queue } = this.config;
    const lane = queue.at(name);
    if (lane !== -1) return lane;
    const known = queue.lanes.map((rule) => rule.name);
    throw new LaneUnknownError(this.operator, String(name), known);
  }

  /** Looks at what can be granted at all: answers what one item may weigh. */
  protected look(): number {
    const { machine, permits } = this;
    const { weigh, maxWeight } = this.config;
    if (weigh === undefined || this.own) return Infinity;
    machine.charges = permits.tokenCapacity !== Infinity;
    machine.aim = Math.min(maxWeight, permits.tokenCapacity);
    return permits.borrows ? Infinity : permits.tokenCapacity;
  }
}

/** What `closeWhen` is told. Looked up only when asked for. */
function openBatch<T, R>(machine: BatchMachine<T, R>, job: Job<T, R>) {
  return {
    itemWeight: job.weight,
    get items() {
      return machine.openBatch(job).map(({ input }) => input);
    },
    get weight() {
      return machine.openBatch(job).reduce((sum, { weight }) => sum + weight, 0);
    },
  };
}
