import { toToolResults } from '../../src/pipelines/tools/tool-formats.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'toToolResults',
  create: (options) => toToolResults([], 'responses', options),
  calls: { protocol: (protocol: never) => toToolResults([], protocol) },
  rows: [
    ...badly('protocol', "one of 'chat', 'responses', 'anthropic', 'ag-ui'", 'openai', undefined, null, 5, {}),
    ...badly('customTools', 'a list of names', 'write', null, 5, {}, [5]),
    ...badly('custom', 'absent (known options: customTools)', true),
  ],
};
