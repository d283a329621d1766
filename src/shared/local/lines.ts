/** Longest message. */
export const LONGEST_LINE = 256 * 1024;

/** Cuts what comes in on a socket into lines. */
export class Lines {
  private rest = '';

  /** The lines that have ended. @throws RangeError when one is too long. */
  read(chunk: string): string[] {
    const lines = (this.rest + chunk).split('\n');
    this.rest = lines.pop() as string;
    if (this.rest.length > LONGEST_LINE || lines.some((line) => line.length > LONGEST_LINE)) throw new RangeError('a line is too long');
    return lines;
  }

  /** Whether a line has begun and not ended. */
  get isInside(): boolean {
    return this.rest !== '';
  }
}
