import { stripVTControlCharacters } from 'node:util';
import { createLogUpdate } from 'log-update';
import type { Host } from './host.js';
import { visible } from './visible.js';

const LIVE_INTERVAL_MS = 100;
const LOG_INTERVAL_MS = 5000;

/** What there is to show. */
export interface Shown {
  /** On a terminal of that width and height. */
  readonly live: (columns: number, rows: number, colour: boolean) => string;
  /** In a log. */
  readonly line: () => string;
}

export interface Display {
  /** Prints a line that stays. */
  note(line: string): void;
  stop(): void;
}

const DEFAULT_COLUMNS = 80;
const DEFAULT_ROWS = 24;

/**
 * Shows what is going on until it is stopped: a live display on a terminal, a line every few seconds elsewhere, and on a terminal that cannot move its
 * cursor (`TERM=dumb`).
 */
export function showProgress({ stderr: stream, terminal = stream, env }: Pick<Host, 'env' | 'stderr' | 'terminal'>, shown: Shown): Display {
  const display = terminal.isTTY && env['TERM'] !== 'dumb' ? new LiveDisplay(terminal, env, shown.live) : undefined;
  const show = (): void => {
    if (display === undefined) stream.write(`${shown.line()}\n`);
    else display.show();
  };
  const timer = setInterval(show, display === undefined ? LOG_INTERVAL_MS : LIVE_INTERVAL_MS);
  return {
    note: (line) => {
      display?.clear();
      stream.write(`${visible(line)}\n`);
    },
    stop: () => {
      clearInterval(timer);
      display?.close();
    },
  };
}

class LiveDisplay {
  readonly #stream: NodeJS.WriteStream;
  readonly #env: NodeJS.ProcessEnv;
  readonly #text: Shown['live'];
  readonly #update: ReturnType<typeof createLogUpdate>;
  /** What stands there, without colours. */
  #lines: readonly string[] = [];

  constructor(stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv, text: Shown['live']) {
    this.#stream = stream;
    this.#env = env;
    this.#text = text;
    this.#update = createLogUpdate(stream);
    stream.on('resize', this.#resized);
  }

  show(): void {
    const text = this.#text(this.#columns, this.#stream.rows || DEFAULT_ROWS, hasColour(this.#stream, this.#env));
    this.#update(text);
    this.#lines = stripVTControlCharacters(text).split('\n');
  }

  clear(): void {
    this.#update.clear();
    this.#lines = [];
  }

  close(): void {
    this.#stream.off('resize', this.#resized);
    this.clear();
    // Shows the cursor again.
    this.#update.done();
  }

  get #columns(): number {
    return this.#stream.columns || DEFAULT_COLUMNS;
  }

  /** A narrower terminal has wrapped what stands there: it takes more lines than were written. */
  readonly #resized = (): void => {
    const wrapped = this.#lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / this.#columns)), 0);
    const more = wrapped - this.#lines.length;
    if (more > 0) this.#stream.write(`\u001b[1A\u001b[2K`.repeat(more));
    this.clear();
  };
}

/** `NO_COLOR` with any value turns colours off, as everywhere. */
function hasColour(stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv): boolean {
  return (env['NO_COLOR'] ?? '') === '' && stream.hasColors();
}
