import type { FlowEvent } from '../../operators/types.js';
import { Histogram } from '../metrics/histogram.js';

/** An event, and when it was told, compared with others. */
export interface Told {
  readonly event: FlowEvent;
  readonly order: number;
}

/** Where an item is. `returned` is between two attempts: its call has failed, and it is to be sent again. */
export type ItemState =
  | 'waiting'
  | 'returned'
  | 'executing'
  | 'fulfilled'
  | 'rejected'
  | 'cancelled'
  | 'dropped'
  | 'expired'
  /** Its operator has ended without a word about it. */
  | 'lost';

/** One item, or one call where there are no batches. It has a number and no content. */
export interface FlowItem {
  readonly key: number;
  readonly id: string | number;
  readonly lane: FlowLane;
  state: ItemState;
  /** Whether it may still get a result. */
  isOpen: boolean;
  /** The newest call it is or was in. */
  batch: FlowBatch | undefined;
  /** Calls it is in; two at the most, of a hedge. */
  calls: number;
  /** How it was accepted. */
  readonly told: Told | undefined;
}

/** One call, and the items in it. */
export interface FlowBatch {
  readonly key: number;
  readonly id: string;
  readonly operator: string;
  readonly instance: FlowInstance;
  readonly lane: FlowLane;
  readonly size: number;
  readonly weight: number;
  readonly parent: FlowBatch | undefined;
  items: readonly FlowItem[];
  /** The numbers of its items, to read: `#4–#7`. */
  readonly label: string;
  startedAt: number;
  attempt: number;
  depth: number;
  /** `executing` until it is over; then how it ended. */
  outcome: string;
  latencyMs: number;
  /** Its place among the calls under way; -1 when it is none of them. */
  slot: number;
  /** Into how many it was cut. */
  parts: number;
  readonly children: FlowBatch[];
  /** The first call of its tree; that one knows how many there are, and how many of them are under way. */
  readonly root: FlowBatch | undefined;
  /** How far it is from that one. */
  readonly level: number;
  calls: number;
  running: number;
  /** Members that have no result yet. */
  open: number;
  /** What was told of it. */
  told: Told[];
}

/** What is known of one lane. */
export class FlowLane {
  /** In the order of their arrival. */
  readonly waiting = new Set<FlowItem>();
  readonly times = new Histogram();
  accepted = 0;
  /** Items in calls. */
  executing = 0;
  settled = 0;

  constructor(readonly name: string) {}
}

/** One subscription of an operator, or one handle. */
export class FlowInstance {
  /** Items without a result, by number or by the name of their call, and those that were given up lately. */
  readonly items = new Map<string | number, FlowItem>();
  /** Calls that may still be repeated or cut up, by name. */
  readonly batches = new Map<string, FlowBatch>();
  /** Calls under way, by name and attempt. */
  readonly calls = new Map<string, FlowBatch>();
  /** Items that were too many to be told apart. */
  untracked = 0;
  /** Given up, though a result may still be told: the keys of those in `items`. */
  readonly leavers: (string | number)[] = [];

  constructor(readonly name: string) {}
}

/** Numbers of items, to read: `#4–#7`. */
export function labelOf(seqs: readonly number[], size: number, batchId: string): string {
  if (seqs.length === 0) return size === 1 ? batchId : `${String(size)} items`;
  let [first, last] = [Infinity, -Infinity];
  for (const seq of seqs) [first, last] = [Math.min(first, seq), Math.max(last, seq)];
  if (first === last) return `#${String(first)}`;
  return `#${String(first)}${last - first === seqs.length - 1 ? '–' : ' … '}#${String(last)}`;
}

/** What a call under way is called. */
export function callOf(batchId: string, attempt: number): string {
  return `${batchId}/${String(attempt)}`;
}

/** Most urgent first: as they are named, then `P0`, `P1`, …, then as they came. */
export function sortLanes(lanes: FlowLane[], order: readonly string[]): FlowLane[] {
  const rank = ({ name }: FlowLane): number => {
    const given = order.indexOf(name);
    if (given !== -1) return given;
    const digits = /^P(\d+)$/.exec(name)?.[1];
    return order.length + (digits === undefined ? 1e6 : Number(digits));
  };
  return lanes.sort((a, b) => rank(a) - rank(b));
}
