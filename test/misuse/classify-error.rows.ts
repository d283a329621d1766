import type { ClassifyContext } from '../../operators/index.js';
import { classifyError } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';

const call: ClassifyContext = { size: 1, attempt: 1, aborted: false };

/** Never throws: what it is told is what went wrong already. */
export const rows: MisuseTable = {
  operator: 'classifyError',
  create: (context) => classifyError(new Error('failed'), context),
  optionless: true,
  calls: {
    error: (error) => classifyError(error, call),
    size: (size) => classifyError({ status: 400, message: 'input[3] is bad' }, { ...call, size }),
    attempt: (attempt) => classifyError({ status: 429 }, { ...call, attempt }),
    aborted: (aborted) => classifyError({ status: 429 }, { ...call, aborted }),
    epochMs: (epochMs) => classifyError({ status: 429, headers: { 'retry-after': 'Fri, 21 Nov 2036 12:00:00 GMT' } }, { ...call, epochMs }),
  },
  rows: [],
};
