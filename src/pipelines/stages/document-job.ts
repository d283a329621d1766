import { check, type Teller } from '../../../operators/build.js';
import type { Policy } from '../../../operators/index.js';
import { CallbackError, ClosedError } from '../../../operators/index.js';
import type { ItemHost, StageValue } from './item-call.js';
import { Item, ItemCall } from './item-call.js';
import type { StageLevel } from './stage-level.js';
import type { Rank } from './stage-permits.js';
import { NAME } from './stages-options.js';
import type { ItemResult, JournalEntry, StageJournal, StageResult } from './stages-types.js';

/** Most items of a document and stage that are begun before they have had a permit: the others are a value in a list. */
const AHEAD = 32;

/** Items of one document that wait to be begun in one stage. */
interface Line {
  items: Item[];
  /** The next of them. */
  at: number;
  /** Begun, without a permit so far. */
  ahead: number;
  isBeginning: boolean;
  /** Of its requests: until its items have had a permit, and from then on. */
  readonly ranks: readonly [fresh: Rank, begun: Rank];
}

/** Events of a document, and of its items. */
export type DocumentNote = Parameters<Teller>[0];

/** What a document needs of the run that it belongs to. */
export interface DocumentHost {
  readonly levels: readonly StageLevel[];
  readonly journal: StageJournal | undefined;
  /** Counts permits. */
  nextTurn(): number;
  emit(result: StageResult<unknown, unknown>): void;
  readonly tell: (note: DocumentNote) => void;
  /** Nothing is begun any more, and what is in progress ends with an error. */
  readonly isGivenUp: boolean;
  /** It has its result. */
  documentOver(document: DocumentJob, isFulfilled: boolean): void;
  /** The journal has failed, and with it everything. */
  journalFailed(error: unknown): void;
}

/** One document on its way: its items, what is known of them, and their results. */
export class DocumentJob implements ItemHost {
  readonly order: number;
  readonly index: number;
  readonly id: string;
  readonly document: unknown;
  readonly priority: number;
  turn = 0;
  /** On the clock of the stages. */
  readonly startedAt: number;
  /** Whether everything was cancelled when it ended: a listener of its end may cancel, too late. */
  wasGivenUp = false;
  readonly #host: DocumentHost;
  readonly #lines: readonly Line[];
  /** What makes its requests, by stage. */
  readonly #policies: readonly ReturnType<StageLevel['open']>[];
  /** Not over; neither are they lists of others. */
  readonly #open = new Set<Item>();
  readonly #calls = new Map<Item, ItemCall>();
  readonly #results: { readonly item: Item; readonly result: ItemResult<unknown> }[] = [];
  /** By item and stage, until it is asked for. */
  #known = new Map<string, unknown>();
  #isOver = false;

  constructor(host: DocumentHost, about: Pick<DocumentJob, 'order' | 'index' | 'id' | 'document' | 'priority'>) {
    this.order = about.order;
    this.index = about.index;
    this.id = about.id;
    this.document = about.document;
    this.priority = about.priority;
    this.#host = host;
    this.startedAt = this.#now();
    this.#lines = host.levels.map(({ position }) => {
      const rank = (hasBegun: boolean): Rank => ({ claimant: this, position, hasBegun });
      return { items: [], at: 0, ahead: 0, isBeginning: false, ranks: [rank(false), rank(true)] };
    });
    this.#policies = host.levels.map((level) => level.open());
  }

  requestIn({ position }: StageLevel): Policy {
    return (this.#policies[position] as ReturnType<StageLevel['open']>).request;
  }

  rankIn({ position }: StageLevel, hasBegun: boolean): Rank {
    const { ranks } = this.#lines[position] as Line;
    return ranks[hasBegun ? 1 : 0];
  }

  granted(): void {
    this.turn = this.#host.nextTurn();
  }

  start(): void {
    // The listener may have ended it.
    if (this.#isOver) return;
    const item = new Item([], this.document, undefined);
    this.#open.add(item);
    const { journal } = this.#host;
    if (journal === undefined) {
      this.#enter(item, 0);
      return;
    }
    this.#later(
      () => journal.recall(this.id),
      (entries) => {
        if (!Array.isArray(entries)) throw check.unusable(NAME, 'journal.recall', 'a list of entries', entries);
        for (const entry of entries as readonly unknown[]) {
          const { stage, item: of, value } = entryOf(entry);
          this.#known.set(keyOf(of, stage), value);
        }
        this.#enter(item, 0);
      },
    );
  }

  /** All or nothing: this error is the end of everything that is under way. */
  fail(reason: unknown, culprit?: Item): void {
    if (this.#isOver) return;
    const open = this.#stop();
    if (culprit) this.#settle(culprit, 'rejected', reason);
    const closed = culprit ? new ClosedError(NAME, reason, 'cancelled, because another item of its document has failed') : reason;
    for (const item of open) if (item !== culprit) this.#settle(item, 'rejected', closed);
    this.#finish({ status: 'rejected', reason });
  }

  /** Cancels the document: its consumer has left. */
  leave(): void {
    if (this.#isOver) return;
    this.#stop();
    this.#release();
    this.#tellEnd('cancelled');
  }

  // ---- what calls of items report -------------------------------------------------------------------------------------

  answered(item: Item, value: unknown): void {
    const level = this.#levelOf(item);
    const { config, name } = level;
    this.#calls.delete(item);
    this.#read(item, value, config.work ? 'work' : 'steps', 'a list', (read) => {
      const { journal } = this.#host;
      if (journal === undefined) this.#passed(item, read);
      else {
        this.#later(
          () => journal.append({ documentId: this.id, stage: name, item: item.path, value: read }),
          () => {
            this.#passed(item, read);
          },
        );
      }
    });
  }

  failed(item: Item, error: unknown): void {
    const level = this.#levelOf(item);
    this.#calls.delete(item);
    if (this.#isOver) return;
    level.failed++;
    if (!level.config.allowPartialFailure) {
      this.fail(error, item);
      return;
    }
    this.#leaveStage(item);
    this.#open.delete(item);
    this.#settle(item, 'rejected', error);
    this.#checkOver();
  }

  begun(item: Item): void {
    (this.#lines[item.stage] as Line).ahead--;
    this.#begin(this.#levelOf(item));
  }

  // ---- items ------------------------------------------------------------------------------------------------------------

  #enter(item: Item, stage: number): void {
    item.stage = stage;
    const level = this.#levelOf(item);
    item.enteredAt = level.now();
    (this.#lines[stage] as Line).items.push(item);
    item.isAdmitted = true;
    level.admitted++;
    level.pending++;
    this.#begin(level);
  }

  /** Begins the next items, in a flat loop. */
  #begin(level: StageLevel): void {
    const line = this.#lines[level.position] as Line;
    if (line.isBeginning) return;
    line.isBeginning = true;
    while (!this.#isOver && line.ahead < AHEAD && line.at < line.items.length) {
      const item = line.items[line.at++] as Item;
      if (line.at === line.items.length) [line.items, line.at] = [[], 0];
      level.pending--;
      const key = keyOf(item.path, level.name);
      if (this.#known.has(key)) this.#recalled(item, key);
      else {
        line.ahead++;
        const call = new ItemCall(this, level, item);
        this.#calls.set(item, call);
        call.start();
      }
    }
    line.isBeginning = false;
  }

  #recalled(item: Item, key: string): void {
    const value = this.#known.get(key);
    this.#known.delete(key);
    this.#read(item, value, 'journal.recall', 'a list for a stage that expands', (read) => {
      this.#advance(item, read);
    });
  }

  /** A list is read once, here: its holes are undefined, and what it throws is the failure of its item. */
  #read(item: Item, value: unknown, callback: string, wanted: string, then: (value: unknown) => void): void {
    let read = value;
    if (this.#levelOf(item).config.expands) {
      try {
        if (!Array.isArray(value)) throw check.unusable(NAME, callback, wanted, value);
        read = Array.from(value as readonly unknown[]);
      } catch (error) {
        this.failed(item, error);
        return;
      }
    }
    then(read);
  }

  /** Its work has made the value, so that its time counts. */
  #passed(item: Item, value: unknown): void {
    if (!this.#isOver) this.#levelOf(item).passed(item.enteredAt);
    this.#advance(item, value);
  }

  #advance(item: Item, value: unknown): void {
    if (this.#isOver) return;
    const level = this.#levelOf(item);
    const next = level.position + 1;
    level.done++;
    this.#leaveStage(item);
    if (!level.config.expands) {
      this.#go(item, { stage: level.name, value, before: item.values }, next);
      return;
    }
    this.#open.delete(item);
    const parts = (value as readonly unknown[]).map(
      (part, i) => new Item([...item.position, i], part, { stage: level.name, value: part, before: item.values }),
    );
    for (const part of parts) {
      part.stage = level.position;
      this.#open.add(part);
    }
    for (const part of parts) {
      // Another part, or a listener that was told of it, may have ended the whole document.
      if (!this.#isOver as boolean) this.#go(part, part.values as StageValue, next);
    }
    this.#checkOver();
  }

  #go(item: Item, values: StageValue, next: number): void {
    item.values = values;
    item.input = values.value;
    if (next < this.#host.levels.length) {
      this.#enter(item, next);
      return;
    }
    this.#open.delete(item);
    this.#settle(item, 'fulfilled', values.value);
    this.#checkOver();
  }

  #settle(item: Item, status: 'fulfilled' | 'rejected', outcome: unknown): void {
    const about = {
      type: 'item',
      documentId: this.id,
      documentIndex: this.index,
      item: item.path,
      stage: this.#levelOf(item).name,
      values: item.earlier,
    } as const;
    const result: ItemResult<unknown> =
      status === 'fulfilled' ? { ...about, status, value: outcome } : { ...about, status, reason: outcome };
    this.#results.push({ item, result });
    this.#host.tell({ type: 'itemEnded', batchId: `${String(this.index)}:${item.path}`, lane: about.stage, outcome: status });
    this.#host.emit(result);
  }

  // ---- the end ----------------------------------------------------------------------------------------------------------

  #checkOver(): void {
    if (this.#isOver || this.#open.size > 0) return;
    this.#setOver();
    const first = this.#results.find(({ result }) => result.status === 'rejected')?.result;
    const hasAny = this.#results.some(({ result }) => result.status === 'fulfilled');
    this.#finish(first?.status === 'rejected' && !hasAny ? { status: 'rejected', reason: first.reason } : { status: 'fulfilled' });
  }

  #finish(outcome: { readonly status: 'fulfilled' } | { readonly status: 'rejected'; readonly reason: unknown }): void {
    const items = this.#results.sort((a, b) => a.item.compare(b.item)).map(({ result }) => result);
    this.#release();
    this.#tellEnd(outcome.status);
    const about = { type: 'document', documentId: this.id, documentIndex: this.index, document: this.document, items } as const;
    this.#host.emit({ ...about, ...outcome });
    this.#host.documentOver(this, outcome.status === 'fulfilled');
  }

  #tellEnd(outcome: 'fulfilled' | 'rejected' | 'cancelled'): void {
    let failed = 0;
    for (const { result } of this.#results) if (result.status === 'rejected') failed++;
    const items = this.#results.length;
    this.#host.tell({ type: 'documentEnded', batchId: String(this.index), outcome, totalMs: this.#now() - this.startedAt, items, failed });
  }

  #setOver(): void {
    this.#isOver = true;
    this.wasGivenUp = this.#host.isGivenUp;
  }

  #now(): number {
    return (this.#host.levels[0] as StageLevel).now();
  }

  /** Ends the document and returns the items that were still open. State first: a listener of a signal may call back into the pipeline. */
  #stop(): Item[] {
    this.#setOver();
    const open = [...this.#open];
    const calls = [...this.#calls.values()];
    this.#open.clear();
    this.#calls.clear();
    for (const item of open) this.#leaveStage(item);
    for (const [i, { items, at }] of this.#lines.entries()) (this.#host.levels[i] as StageLevel).pending -= items.length - at;
    // Those that wait first, so that none of them gets what another gives back.
    for (const call of calls) if (!call.hasBegun) call.stop();
    for (const call of calls) call.stop();
    return open;
  }

  #release(): void {
    for (const { close } of this.#policies) close();
  }

  /** Something of the journal that may take its time. */
  #later<R>(ask: () => R | PromiseLike<R>, then: (answer: R) => void): void {
    const failed = (error: unknown): void => {
      if (!this.#isOver) this.#host.journalFailed(error);
    };
    const went = (answer: R): void => {
      if (this.#isOver) return;
      try {
        then(answer);
      } catch (error) {
        failed(error);
      }
    };
    try {
      const answer = ask();
      if (typeof (answer as Partial<PromiseLike<R>> | undefined)?.then === 'function') Promise.resolve(answer).then(went, failed);
      else went(answer as R);
    } catch (error) {
      failed(error);
    }
  }

  #leaveStage(item: Item): void {
    if (item.isAdmitted) this.#levelOf(item).admitted--;
    item.isAdmitted = false;
  }

  #levelOf(item: Item): StageLevel {
    return this.#host.levels[item.stage] as StageLevel;
  }
}

/** @throws CallbackError for what no journal was ever told */
function entryOf(given: unknown): JournalEntry {
  const entry = Object(given) as JournalEntry;
  const wrong = (['stage', 'item'] as const).find((name) => typeof entry[name] !== 'string');
  if (wrong === undefined) return entry;
  const got = entry === given ? `one whose \`${wrong}\` is ${check.show(entry[wrong])}` : check.show(given);
  throw new CallbackError(NAME, 'journal.recall', `must return entries with the texts \`stage\` and \`item\`, returned ${got}`);
}

function keyOf(path: string, stage: string): string {
  return `${path} ${stage}`;
}
