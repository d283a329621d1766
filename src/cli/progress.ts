import { createLogUpdate } from 'log-update';
import { formatCount, formatMs, formatShare } from './format.js';
import type { JobProgress } from './index-job.js';

/** The live display: four lines at most. Pure, the terminal is the printer's business. */
export function progressText({ phase, done, total, flow, meanFill, p0 }: JobProgress): string {
  const bar = total === 0 ? '' : ` ${progressBar(done / total)} ${formatCount(done)}/${formatCount(total)} passages`;
  const lines = [`${phase}${bar}`];
  if (flow !== undefined) {
    const { calls, executing, queued, heldByRate, throttled, retries, splits } = flow;
    lines.push(`calls ${formatCount(calls)}, ${String(executing)} in flight, batches ${formatShare(meanFill)} full`);
    lines.push(
      `queued ${formatCount(queued)}, held by rate ${formatCount(heldByRate)}, 429s ${String(throttled)}, retries ${String(retries)}, splits ${String(splits)}`,
    );
  }
  if (p0.count > 0) lines.push(`questions: p50 ${formatMs(p0.p50Ms)}, p99 ${formatMs(p0.p99Ms)} (last ${String(p0.count)})`);
  return lines.join('\n');
}

/** The same on one line, for logs. */
export function progressLine(progress: JobProgress): string {
  return progressText(progress).replaceAll('\n', '; ');
}

const BAR_WIDTH = 24;

function progressBar(share: number): string {
  const full = Math.round(share * BAR_WIDTH);
  return `[${'#'.repeat(full)}${'.'.repeat(BAR_WIDTH - full)}]`;
}

const LIVE_INTERVAL_MS = 100;
const LOG_INTERVAL_MS = 5000;

export interface Display {
  /** Prints a line that stays. */
  note(line: string): void;
  stop(): void;
}

/** Shows progress until it is stopped: a live display on a terminal, a line every few seconds elsewhere. */
export function showProgress(stream: NodeJS.WriteStream, progress: () => JobProgress): Display {
  const live = stream.isTTY ? createLogUpdate(stream) : undefined;
  const show = (): void => {
    if (live === undefined) stream.write(`${progressLine(progress())}\n`);
    else live(progressText(progress()));
  };
  const timer = setInterval(show, live === undefined ? LOG_INTERVAL_MS : LIVE_INTERVAL_MS);
  return {
    note: (line) => {
      live?.clear();
      stream.write(`${line}\n`);
    },
    stop: () => {
      clearInterval(timer);
      live?.clear();
    },
  };
}
