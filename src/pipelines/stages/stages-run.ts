import type { Subscriber } from 'rxjs';
import { ask, check, openPull } from '../../../operators/build.js';
import type { PullSource } from '../../../operators/index.js';
import type { DocumentHost, DocumentNote } from './document-job.js';
import { DocumentJob } from './document-job.js';
import type { StageLevel } from './stage-level.js';
import type { StagesConfig } from './stages-options.js';
import { NAME } from './stages-options.js';
import type { StageJournal, StageResult } from './stages-types.js';

/** A document that was read. */
export interface QueuedDocument {
  readonly run: StagesRun;
  readonly order: number;
  readonly priority: number;
  readonly index: number;
  readonly id: string;
  readonly document: unknown;
}

/** What a run needs of the pipeline that it belongs to. */
export interface RunHost {
  readonly config: StagesConfig;
  readonly levels: readonly StageLevel[];
  /** Whether one more document may be read. */
  readonly hasRoom: boolean;
  /** Counts up with every document. */
  nextOrder(): number;
  /** Counts up with every permit. */
  nextTurn(): number;
  /** It has been read, and may be begun. */
  take(next: QueuedDocument): void;
  readonly tell: (note: DocumentNote) => void;
  /** It is over, and was in progress. */
  over(document: DocumentJob, isFulfilled: boolean): void;
  /** It was not even begun. */
  turnedAway(): void;
  /** There may be room for others. */
  moveOn(): void;
  /** Documents whose name or priority is being asked for. */
  asking: number;
  /** Nothing is begun any more. */
  readonly givenUp: { readonly error: unknown } | undefined;
  /** The same, when a limit that changes has failed. */
  readonly fault: RunHost['givenUp'];
  checkDrained(): void;
}

/** One input on its way through the stages. */
export class StagesRun implements DocumentHost {
  readonly levels: readonly StageLevel[];
  readonly journal: StageJournal | undefined;
  readonly tell: (note: DocumentNote) => void;
  readonly #host: RunHost;
  readonly #to: Subscriber<StageResult<unknown, unknown>>;
  readonly #input: PullSource<unknown>;
  readonly #pull: ReturnType<typeof openPull>;
  /** In progress. */
  readonly #documents = new Set<DocumentJob>();
  #read = 0;
  /** Read and without a result. */
  #open = 0;
  #hasEnded = false;
  /** What the input has failed with; told when what was read is over. */
  #failure: { readonly error: unknown } | undefined;

  constructor(host: RunHost, input: PullSource<unknown>, to: Subscriber<StageResult<unknown, unknown>>) {
    this.levels = host.levels;
    this.journal = host.config.journal;
    this.tell = host.tell;
    this.#host = host;
    this.#to = to;
    this.#input = input;
    this.#pull = openPull(input, {
      room: () => host.hasRoom && !to.closed,
      unsettled: () => this.#open,
      next: (document) => {
        this.#next(document);
      },
      done: () => {
        this.endInput();
      },
      failed: (error) => {
        this.#failure = { error };
        this.endInput();
      },
    });
  }

  /** Documents of an array that were not read; of other inputs it is not known. */
  get unread(): number {
    return Array.isArray(this.#input) && !this.#hasEnded ? Math.max(0, this.#input.length - this.#read) : 0;
  }

  get isGivenUp(): boolean {
    return this.#host.givenUp !== undefined;
  }

  nextTurn(): number {
    return this.#host.nextTurn();
  }

  /** Reads on while there is room. What is subscribed to meanwhile is read by others. */
  resume(): void {
    this.#pull.resume();
  }

  /** Reads no more. */
  endInput(): void {
    this.#pull.close();
    // Documents that were not read have no result that could tell it.
    if (!this.#hasEnded) this.#failure ??= this.#host.fault;
    this.#hasEnded = true;
    this.#checkOver();
  }

  /** The consumer has left, or knows that all is over. What was in progress until now. */
  leave(): readonly DocumentJob[] {
    this.#pull.close();
    const left = [...this.#documents];
    this.#documents.clear();
    for (const document of left) document.leave();
    return left;
  }

  begin({ order, priority, index, id, document }: QueuedDocument): DocumentJob {
    const job = new DocumentJob(this, { order, priority, index, id, document });
    this.#documents.add(job);
    return job;
  }

  /** Will not be begun. */
  turnAway({ id, index, document }: Pick<QueuedDocument, 'id' | 'index' | 'document'>, reason: unknown): void {
    this.#host.turnedAway();
    this.emit({ type: 'document', documentId: id, documentIndex: index, document, status: 'rejected', reason, items: [] });
    this.#open--;
    this.#checkOver();
  }

  emit(result: StageResult<unknown, unknown>): void {
    this.#to.next(result);
  }

  documentOver(document: DocumentJob, isFulfilled: boolean): void {
    this.#documents.delete(document);
    this.#open--;
    this.#host.over(document, isFulfilled);
    this.#checkOver();
    this.#host.moveOn();
  }

  journalFailed(error: unknown): void {
    this.#to.error(error);
  }

  #next(document: unknown): void {
    const index = this.#read++;
    const host = this.#host;
    const { id, priority } = host.config;
    const order = host.nextOrder();
    this.#open++;
    let name = String(index);
    let urgency = 0;
    let fault: RunHost['givenUp'];
    host.asking++;
    try {
      if (id) name = idOf(ask(NAME, 'id', id, document));
      if (priority) urgency = priorityOf(ask(NAME, 'batches.priority', priority, document));
    } catch (error) {
      fault = { error };
    }
    host.asking--;
    fault ??= host.givenUp;
    // The callbacks may have unsubscribed, or closed the pipeline.
    if (!this.#to.closed) {
      if (fault) this.turnAway({ id: name, index, document }, fault.error);
      else host.take({ run: this, order, priority: urgency, index, id: name, document });
    }
    host.checkDrained();
  }

  #checkOver(): void {
    if (!this.#hasEnded || this.#open > 0) return;
    if (this.#failure) this.#to.error(this.#failure.error);
    else this.#to.complete();
  }
}

function idOf(id: unknown): string {
  if (typeof id === 'string' && id !== '') return id;
  throw check.unusable(NAME, 'id', 'a non-empty string', id);
}

function priorityOf(priority: unknown): number {
  if (typeof priority === 'number' && !Number.isNaN(priority)) return priority;
  throw check.unusable(NAME, 'batches.priority', 'a number', priority);
}
