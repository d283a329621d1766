import type { FlowEvent } from '../../operators/index.js';
import { Quantiles } from '../metrics/quantiles.js';

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
  readonly id: string | number;
  readonly instance: FlowInstance;
  readonly lane: FlowLane;
  state: ItemState;
  /** Whether it may still get a result. */
  isOpen: boolean;
  /** The newest call it is or was in. */
  batch: FlowBatch | undefined;
  /** Calls it is in; two at the most, of a hedge. */
  calls: number;
}

/** One call, and the items in it. */
export interface FlowBatch {
  readonly id: string;
  readonly operator: string;
  readonly instance: FlowInstance;
  readonly lane: FlowLane;
  readonly size: number;
  readonly parent: FlowBatch | undefined;
  items: readonly FlowItem[];
  /** What it is called: `#4 +3`. */
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
  /** The first call of its tree; that one knows how many there are. */
  readonly root: FlowBatch | undefined;
  /** How far it is from that one. */
  readonly level: number;
  calls: number;
  /** Members that have no result yet. */
  open: number;
}

/** What is known of one lane. */
export interface FlowLane {
  readonly name: string;
  /** In the order of their arrival. */
  readonly waiting: Set<FlowItem>;
  readonly times: Quantiles;
  accepted: number;
  /** Items in calls. */
  executing: number;
  settled: number;
}

export function newLane(name: string): FlowLane {
  return { name, waiting: new Set(), times: new Quantiles(), accepted: 0, executing: 0, settled: 0 };
}

/** One subscription of an operator, or one handle. */
export interface FlowInstance {
  readonly name: string;
  /** Items without a result, by number or by the name of their call, and those that were given up lately. */
  readonly items: Map<string | number, FlowItem>;
  /** Calls that may still be repeated or cut up, by name. */
  readonly batches: Map<string, FlowBatch>;
  /** Calls under way, by name and attempt. */
  readonly calls: Map<string, FlowBatch>;
  /** Given up, though a result may still be told: the keys of those in `items`. */
  readonly leavers: (string | number)[];
  /** How many of its items may still get a result. */
  open: number;
}

export function openItems({ items }: FlowInstance): FlowItem[] {
  return [...items.values()].filter(({ isOpen }) => isOpen);
}

/** What a batch is called, by its first item: `#4 +3`. */
export function labelOf([first]: readonly number[], size: number, batchId: string): string {
  return `${first === undefined ? batchId : `#${first}`}${size > 1 ? ` +${size - 1}` : ''}`;
}

/** What a call under way is called. */
export function callOf(batchId: string, attempt: number): string {
  return `${batchId}/${attempt}`;
}

/** Most urgent first: as they are named, then `user`, `normal`, …, then as they came. */
export function sortLanes(lanes: Iterable<FlowLane>, order: readonly string[]): FlowLane[] {
  const rank = ({ name }: FlowLane): number => {
    const given = order.indexOf(name);
    return given >= 0 ? given : order.length + Number(/^P(\d+)$/.exec(name)?.[1] ?? 1e6);
  };
  return [...lanes].sort((a, b) => rank(a) - rank(b));
}

/** The item of an event, by number, or by the name of its call. */
export function idOf({ seq, batchId }: FlowEvent): number | string | undefined {
  return seq ?? batchId;
}

/** What an event calls its operator and instance. */
export function nameOf({ operator, instance = '' }: FlowEvent): string {
  return `${operator}/${instance}`;
}
