import { toToolResults } from '../../src/pipelines/tools/tool-formats.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'toToolResults',
  optionless: true,
  create: () => toToolResults([], 'responses'),
  calls: {
    protocol: (protocol: never) => toToolResults([], protocol),
    customTools: (names: never) => toToolResults([], 'responses', names),
  },
  rows: [
    ...badly('protocol', "one of 'chat', 'responses', 'anthropic', 'ag-ui'", 'openai', undefined, null, 5, {}),
    ...badly('customTools', 'a list of names', 'write', null, 5, {}, [5]),
  ],
};
