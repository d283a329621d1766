import { Observable, Subscription } from 'rxjs';
import { Alarm, check, type Shutdown, ShutdownHandle, teller } from '../../../operators/build.js';
import type { FlowEvent, FlowSink, PullSource } from '../../../operators/index.js';
import { ClosedError } from '../../../operators/index.js';
import { EventChannel } from '../event-channel.js';
import type { DocumentJob, DocumentNote } from './document-job.js';
import { StageLevel } from './stage-level.js';
import { StagePermits } from './stage-permits.js';
import type { Concurrency, StagesConfig } from './stages-options.js';
import { NAME, stagesConfig } from './stages-options.js';
import type { QueuedDocument, RunHost } from './stages-run.js';
import { StagesRun } from './stages-run.js';
import { stagesSnapshot } from './stages-snapshot.js';
import type { AnyStage, StageResult, Stages, StagesOptions, StagesSnapshot } from './stages-types.js';

/** The documents of all runs, the levels they share, and the end of all. */
export class FlowStages extends ShutdownHandle implements Stages<unknown, unknown>, RunHost {
  readonly events: Observable<FlowEvent>;
  readonly config: StagesConfig;
  readonly levels: readonly StageLevel[];
  asking = 0;
  givenUp: RunHost['givenUp'] = undefined;
  fault: RunHost['givenUp'] = undefined;
  protected override readonly shutdown: Shutdown;
  readonly tell: (note: DocumentNote) => void;
  readonly #permits: StagePermits;
  readonly #clock: Alarm;
  /** The one that has read last is the last to read on. */
  #runs = new Set<StagesRun>();
  /** Read and not begun. */
  #queued: QueuedDocument[] = [];
  /** In progress. */
  readonly #documents = new Set<DocumentJob>();
  readonly #counts = { done: 0, failed: 0 };
  /** Time in progress of all documents that are over, in ms. */
  #documentMs = 0;
  /** Most documents in progress, now. */
  #most: number;
  /** What changes limits. */
  readonly #following = new Subscription();
  /** Of those that have failed: were never begun. */
  #turnedAway = 0;
  #orders = 0;
  #turns = 0;
  #isBeginning = false;
  /** Accepted, and without an end that was told. */
  #requests = 0;

  constructor(stages: readonly AnyStage[], options: StagesOptions<unknown>) {
    super();
    const config = stagesConfig(stages, options);
    const { scheduler, onEvent, name } = config;
    this.config = config;
    this.#most = config.documents.first;
    this.#clock = new Alarm(scheduler, () => {
      this.#begin();
    });
    const channel = new EventChannel(onEvent);
    this.events = channel.events;
    const sink: FlowSink = (event) => {
      const { type } = event;
      if (type === 'accepted') this.#requests++;
      channel.tell(event);
      if (type !== 'settled' && type !== 'cancelled') return;
      this.#requests--;
      this.checkDrained();
    };
    this.tell = teller(NAME, { onEvent: sink, name }, () => this.#clock.now()) as NonNullable<ReturnType<typeof teller>>;
    const permits = new StagePermits(config);
    this.#permits = permits;
    this.levels = config.stages.map((_, position) => new StageLevel(config, position, permits, this.tell));
    this.shutdown = this.shutdownOf({
      operator: NAME,
      scheduler,
      stop: () => {
        this.#endInputs();
        this.checkDrained();
      },
      abort: (error) => {
        this.givenUp = { error };
        this.#endInputs();
        for (const next of this.#queued.splice(0)) next.run.turnAway(next, error);
        for (const document of [...this.#documents]) document.fail(error);
        this.checkDrained();
      },
    });
    for (const level of this.levels) {
      this.#follow(level.config.concurrency, (concurrency) => {
        level.setConcurrency(concurrency);
      });
    }
    this.#follow(config.documents, (concurrency) => {
      this.#most = concurrency;
      this.moveOn();
    });
  }

  run(documents: PullSource<unknown>): Observable<StageResult<unknown, unknown>> {
    check.pullSource(NAME, 'input', documents);
    return new Observable((subscriber) => {
      if (this.shutdown.isClosed) {
        subscriber.error(new ClosedError(NAME, this.fault?.error));
        return;
      }
      const run = new StagesRun(this, documents, subscriber);
      this.#runs = new Set([run, ...this.#runs]);
      subscriber.add(() => {
        this.#left(run);
      });
      run.resume();
    });
  }

  snapshot(): StagesSnapshot {
    const { levels } = this;
    const { done, failed } = this.#counts;
    const over = done + failed - this.#turnedAway;
    const meanMs = over === 0 ? 0 : this.#documentMs / over;
    const documents = { concurrency: this.#most, queued: this.#waiting, executing: this.#documents.size, done, failed, meanMs };
    return stagesSnapshot(documents, levels, this.#permits.account);
  }

  /** Documents that were read and not begun, and those that are known to come. */
  get #waiting(): number {
    let waiting = this.#queued.length;
    for (const run of this.#runs) waiting += run.unread;
    return waiting;
  }

  /** Takes a limit that changes; one that fails is the end of everything. */
  #follow({ changes }: Concurrency, set: (concurrency: number) => void): void {
    const error = (fault: unknown): void => {
      this.fault ??= { error: fault };
      this.shutdown.close(fault);
    };
    this.#following.add(changes?.subscribe({ next: set, error }));
  }

  // ---- what runs ask --------------------------------------------------------------------------------------------------

  get hasRoom(): boolean {
    return !this.shutdown.isClosed && this.#documents.size + this.#queued.length < this.#most + this.config.maxQueued;
  }

  nextOrder(): number {
    return this.#orders++;
  }

  nextTurn(): number {
    return ++this.#turns;
  }

  take(next: QueuedDocument): void {
    this.#runs.delete(next.run);
    this.#runs.add(next.run);
    this.#queued.push(next);
    // Those that are read in one go are all there to choose from.
    if (this.config.maxQueued > 0) this.#clock.setBy(this.#clock.now());
    else this.#begin();
  }

  over(document: DocumentJob, isFulfilled: boolean): void {
    this.#documents.delete(document);
    this.#documentMs += this.#clock.now() - document.startedAt;
    this.#counts[isFulfilled ? 'done' : 'failed']++;
    this.shutdown.count(document.wasGivenUp ? 'aborted' : 'done');
  }

  turnedAway(): void {
    this.#counts.failed++;
    this.#turnedAway++;
    this.shutdown.count(this.givenUp ? 'dropped' : 'done');
  }

  moveOn(): void {
    this.#begin();
    for (const run of [...this.#runs]) run.resume();
    this.checkDrained();
  }

  /** Begins the next documents, in a flat loop. */
  #begin(): void {
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    while (this.#queued.length > 0 && this.#documents.size < this.#most) {
      const next = this.#queued.reduce((first, other) => (other.priority > first.priority ? other : first));
      this.#queued.splice(this.#queued.indexOf(next), 1);
      const document = next.run.begin(next);
      this.#documents.add(document);
      this.tell({
        type: 'documentStarted',
        batchId: String(document.index),
        executing: this.#documents.size,
        queued: this.#waiting,
      });
      document.start();
    }
    this.#isBeginning = false;
  }

  // ---- the end --------------------------------------------------------------------------------------------------------

  #endInputs(): void {
    for (const run of [...this.#runs]) run.endInput();
  }

  #left(run: StagesRun): void {
    this.#runs.delete(run);
    this.#queued = this.#queued.filter((next) => next.run !== run);
    for (const document of run.leave()) this.#documents.delete(document);
    if (this.#queued.length === 0) this.#clock.clear();
    this.moveOn();
  }

  checkDrained(): void {
    const open = this.#documents.size + this.#queued.length + this.asking + this.#requests;
    if (!this.shutdown.isClosed || open > 0 || !this.shutdown.finish()) return;
    this.#following.unsubscribe();
    this.#permits.close();
    this.tell({ type: 'drained' });
  }
}
