import { expect, it, onTestFinished, vi } from 'vitest';
import { showProgress } from '../../src/cli/progress.js';

it('writes plain lines to a terminal that cannot move its cursor', () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  let text = '';
  const terminal = { isTTY: true, columns: 80, rows: 24, write: (piece: string) => (text += piece) } as unknown as NodeJS.WriteStream;
  const shown = { live: () => 'a view', line: () => 'a line' };
  const display = showProgress({ stderr: terminal, env: { TERM: 'dumb' } }, shown);
  vi.advanceTimersByTime(10_000);
  display.note('a note');
  display.stop();
  expect(text).toBe('a line\na line\na note\n');
});
