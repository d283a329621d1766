import { onDisk } from '../../journal/file-error.js';
import { readLines } from '../../journal/lines.js';
import type { Gap, Span } from './run-journal.js';

/** What a line of the output or of the failures is about. */
interface AnyLine {
  readonly row?: unknown;
  readonly id?: unknown;
  readonly item?: unknown;
  readonly stage?: unknown;
}

/** Lines of a file that the journal does not know of, for some of its own are damaged. */
export class Standing {
  readonly #names: Set<string>;

  private constructor(names: Set<string>) {
    this.#names = names;
  }

  /** @throws CliError (exit code 4) when the file cannot be read. */
  static async in(path: string, gaps: readonly Gap[], spanOf: (gap: Gap) => Span): Promise<Standing> {
    const names = new Set<string>();
    for (const gap of gaps)
      await onDisk(`read \`${path}\``, async () => {
        for await (const { text } of readLines(path, ...spanOf(gap))) {
          const line = lineIn(text);
          if (line !== undefined && gap.concerns(Number(line.row))) names.add(nameOf(line, gap.document));
        }
      });
    return new Standing(names);
  }

  /** Those of a document that do not stand there. Asked once for each. */
  missing<L extends AnyLine>(lines: readonly L[], document: string): readonly L[] {
    if (this.#names.size === 0) return lines;
    return lines.filter((line) => !this.#names.delete(nameOf(line)) && !this.#names.delete(nameOf(line, document)));
  }
}

function nameOf({ row, id, item, stage }: AnyLine, document?: string): string {
  return JSON.stringify([row, id, item, stage, document]);
}

/** Undefined for what nobody here has written. */
function lineIn(text: string): AnyLine | undefined {
  try {
    return Object(JSON.parse(text)) as AnyLine;
  } catch {
    return undefined;
  }
}
