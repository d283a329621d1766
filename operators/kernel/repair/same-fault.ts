import { fieldOf } from './field-of.js';

/** Items from all over the batch that have failed alone, after which one that is searched part by part is given up. */
const ENOUGH_ALONE = 4;

/** Counts and durations, which are those of a call and not of its cause. */
const SHORT_NUMBERS = /(?<![\w.-])\d{1,5}(?:\.\d{1,5})?(?![\w-])/g;

/** Of a longer text nothing behind this is compared. */
const MOST_TEXT = 10_000;

/**
 * Whether cutting a batch up leads anywhere. It does not when nothing has succeeded and every part has failed with an error that nobody
 * recognises and that has the same name and message, but for short numbers. Parts are those of the first cut that makes four.
 */
export class SameFault {
  /** Depth of the parts that count. */
  private readonly level: number;
  private mark: string | undefined = undefined;
  private isRuledOut = false;
  /** Parts that have not failed; Infinity when one is sent after the other. */
  private untried: number;
  private single = 0;

  /** @param factor parts that a batch is cut into; 0 when one part after the other is sent */
  constructor(factor: number) {
    this.level = factor >= 4 ? 1 : 2;
    this.untried = factor === 0 ? Infinity : 1;
  }

  /** Items that have failed alone with what may be the same fault in all of them. */
  get alone(): number {
    return this.isRuledOut ? 0 : this.single;
  }

  get isHopeless(): boolean {
    return !this.isRuledOut && (this.untried === 0 || (this.untried === Infinity && this.single >= ENOUGH_ALONE));
  }

  /** Something came of a call, or an error says what it is about: there are items to be told apart. */
  ruleOut(): void {
    this.isRuledOut = true;
  }

  /** What was sent at this depth is cut into so many parts. */
  cut(depth: number, parts: number): void {
    if (depth < this.level) this.untried += parts - 1;
  }

  /** A call failed with an error nobody recognises. */
  failed(error: unknown, size: number, depth: number): void {
    const mark = markOf(error);
    if (mark !== (this.mark ??= mark)) this.ruleOut();
    if (size === 1) this.single++;
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
