import type { FlowEvent } from '../../operators/index.js';
import type { World } from './world.js';

/** What one subscription or handle has told. */
interface Chapter {
  /** Items, and when they came. */
  readonly accepted: Map<number, number>;
  readonly settled: Set<number>;
  /** The items of each batch, by its name. */
  readonly batches: Map<string, readonly number[]>;
  /** Calls that began and did not end, and when they began. */
  readonly open: Map<string, number>;
}

/**
 * The events of a pipeline are all that a drawing of it has. So they must tell the whole story by themselves. Only accepted items are called or
 * settled, and none after it has its result. A reported duration is the time that passed. A call that began ends once, also when its consumer
 * leaves. A call that repeats another has only items of that call.
 */
export class Story {
  readonly #chapters = new Map<string, Chapter>();

  constructor(
    readonly world: World,
    readonly name: string,
  ) {}

  told(event: FlowEvent): void {
    const { type, at = Number.NaN, instance = '', seq, seqs = seq === undefined ? [] : [seq] } = event;
    let chapter = this.#chapters.get(instance);
    if (chapter === undefined) {
      chapter = { accepted: new Map(), settled: new Set(), batches: new Map(), open: new Map() };
      this.#chapters.set(instance, chapter);
    }
    const { accepted, settled, batches, open } = chapter;
    const wrong = (what: string): void => {
      this.world.problem(`${this.name} tells \`${type}\` ${what}`);
    };
    /** What it says that something took is the time between the events that tell so. */
    const tookFrom = (ms: number, since = at): void => {
      if (this.world.clock.isSteady && Math.abs(at - since - ms) > 0.01) wrong(`after ${at - since} ms and says ${ms}`);
    };
    if (type === 'accepted') {
      if (seq !== undefined && accepted.has(seq)) wrong('twice of an item');
      if (seq !== undefined) accepted.set(seq, at);
      return;
    }
    // Some operators number the items that they emit, and report none that they accept.
    if (accepted.size > 0 && seqs.some((item) => !accepted.has(item))) wrong('of an item that was not accepted');
    if (type !== 'cancelled' && seqs.some((item) => settled.has(item))) wrong('of an item that has its result');
    if (type === 'settled' && seq !== undefined) {
      settled.add(seq);
      tookFrom(event.totalMs, accepted.get(seq));
    }
    if (type === 'blamed' && event.blamed === 0) wrong('without items');
    if (type === 'batchFormed' && event.batchId !== undefined) {
      const items = this.#itemsOf(event, event.size);
      if (batches.has(event.batchId)) wrong('twice of a batch');
      batches.set(event.batchId, items);
      if (items.length !== event.size) wrong(`of ${event.size} items and names ${items.length}`);
      const parent = event.parentBatchId === undefined ? items : batches.get(event.parentBatchId);
      if (parent === undefined) wrong('of a part of nothing');
      else if (items.some((item) => !parent.includes(item))) wrong('with items that the call it repeats did not have');
    }
    if (type === 'attemptStarted') {
      if (open.has(event.batchId)) wrong('twice of a call');
      open.set(event.batchId, at);
    }
    if (type === 'attemptEnded') {
      tookFrom(event.latencyMs, open.get(event.batchId));
      if (!open.delete(event.batchId)) wrong('of a call that is not under way');
    }
  }

  /** Everything is over. */
  finish(): void {
    for (const { open } of this.#chapters.values())
      if (open.size > 0) this.world.problem(`${this.name} tells no end of ${open.size} call(s)`);
  }

  #itemsOf({ seq, seqs }: FlowEvent, size: number): readonly number[] {
    return seqs ?? (seq === undefined ? [] : Array.from({ length: size }, (_, at) => seq + at));
  }
}
