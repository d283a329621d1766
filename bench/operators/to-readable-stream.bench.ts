import { range } from 'rxjs';
import { toReadableStream } from '../../operators/to-readable-stream.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

async function countChunks(what: string, stream: ReadableStream<number>, want: number): Promise<void> {
  const reader = stream.getReader();
  let count = 0;
  while (!(await reader.read()).done) count++;
  assertCount(what, count, want);
}

function reading(n: number): Case {
  return {
    name: `a stream of ${n.toLocaleString('en')} chunks`,
    n,
    contestants: {
      'by hand': () => {
        const stream = new ReadableStream<number>({
          start: (controller) => {
            range(0, n).subscribe({
              next: (value) => {
                controller.enqueue(value);
              },
              complete: () => {
                controller.close();
              },
            });
          },
        });
        return countChunks('by hand', stream, n);
      },
      'sluice toReadableStream': () => countChunks('toReadableStream', toReadableStream(range(0, n), { maxQueued: Infinity }), n),
    },
  };
}

export const cases: readonly (() => Case)[] = [() => reading(1e4)];
