import { fieldOf } from './field-of.js';

/** When so many items from all over the batch have failed alone, a batch that is searched part by part is rejected. */
const ENOUGH_ALONE = 4;

/** Counts and durations, which are those of a call and not of its cause. */
const SHORT_NUMBERS = /(?<![\w.-])\d{1,5}(?:\.\d{1,5})?(?![\w-])/g;

/** Of a longer text nothing behind this is compared. */
const MOST_TEXT = 10_000;

/**
 * Whether cutting a batch up leads anywhere. It does not when nothing has succeeded and every part has failed with an unrecognised error of the same
 * name and message, short numbers aside. Parts are those of the first cut that makes four.
 */
export class SameFault {
  /** How often the items that an error named were taken out. */
  blameRounds = 0;
  /** Depth of the parts that count; Infinity when only items that have failed alone do. */
  private readonly level: number;
  private mark: string | undefined = undefined;
  /** Parts that have not failed; Infinity once there are items to be told apart. */
  private untried: number;

  /** @param parts how many a batch is cut into; 0 when one part after the other is sent */
  constructor(parts: number) {
    this.level = parts === 0 ? Infinity : parts >= 4 ? 1 : 2;
    this.untried = parts === 0 ? ENOUGH_ALONE : 1;
  }

  /** Items that have failed alone with what may be the same fault in all of them, of a batch that is sent one part after the other. */
  get alone(): number {
    return Math.max(0, ENOUGH_ALONE - this.untried);
  }

  get isHopeless(): boolean {
    return this.untried === 0;
  }

  /** Something came of a call, or an error says what it is about: there are items to be told apart. */
  ruleOut(): void {
    this.untried = Infinity;
  }

  /** What was sent at this depth is cut into so many parts. */
  cut(depth: number, parts: number): void {
    if (depth < this.level) this.untried += parts - 1;
  }

  /** A call failed with an unrecognised error. */
  failed(error: unknown, size: number, depth: number): void {
    const mark = markOf(error);
    if (mark !== (this.mark ??= mark)) this.ruleOut();
    if (size === 1 ? depth <= this.level : depth === this.level) this.untried--;
  }
}

/** What two errors have in common when they are about the same. */
function markOf(error: unknown): string {
  const name = fieldOf(error, 'name');
  const message = fieldOf(error, 'message');
  const text = typeof message === 'string' ? message : typeof error === 'string' ? error : typeof error;
  return `${typeof name === 'string' ? name : ''}\n${text.slice(0, MOST_TEXT).replaceAll(SHORT_NUMBERS, '#')}`;
}
