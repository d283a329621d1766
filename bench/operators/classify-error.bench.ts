import { classifyError } from '../../operators/classify-error.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

function statuses(n: number): Case {
  const errors = [400, 401, 408, 413, 429, 500, 503, 529].map((status) => Object.assign(new Error('refused'), { status }));
  const retryable = (status: number): boolean => status === 408 || status === 429 || status >= 500;
  const again = new Set(['throttled', 'transient', 'timeout']);
  const run = (what: string, retries: (error: Error & { readonly status: number }) => boolean): void => {
    let count = 0;
    for (let i = 0; i < n; i++) if (retries(errors[i % errors.length]!)) count++;
    assertCount(what, count, (5 * n) / 8);
  };
  return {
    name: `what to do about an HTTP status, ${n.toLocaleString('en')} errors`,
    n,
    contestants: {
      'by hand (the status alone)': () => {
        run('by hand', ({ status }) => retryable(status));
      },
      'sluice classifyError': () => {
        run('classifyError', (error) => again.has(classifyError(error, { size: 1, attempt: 1, aborted: false }).class));
      },
    },
  };
}

/** Messages that make a careless pattern go back over them again and again; items are characters. */
function hostile(unit: string, n: number): Case {
  const message = unit.repeat(n / unit.length);
  const error = Object.assign(new Error(message), { status: 400 });
  return {
    name: `a message of ${n.toLocaleString('en')} characters, all \`${unit}\``,
    n,
    contestants: {
      'by hand (one walk over all of it)': () => {
        let sum = 0;
        for (let i = 0; i < message.length; i++) sum += message.charCodeAt(i);
        assertCount('by hand', sum > 0 ? n : 0, n);
      },
      'sluice classifyError': () => {
        assertCount('classifyError', classifyError(error, { size: 1, attempt: 1, aborted: false }).class === 'itemFault' ? n : 0, n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [
  () => statuses(8e4),
  () => hostile('input[maximum context length is 1 tokens ', 2_050_000),
  () => hostile('1', 1e6),
];
