import { toToolDefinitions } from '../../src/pipelines/tools/tool-definitions.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'toToolDefinitions',
  create: (options) => toToolDefinitions([], 'responses', options),
  calls: {
    protocol: (protocol: never) => toToolDefinitions([], protocol),
    tools: (tools: never) => toToolDefinitions(tools, 'chat'),
  },
  rows: [
    ...badly('protocol', "one of 'chat', 'responses', 'anthropic', 'ag-ui'", 'openai', undefined, null, 5, {}),
    ...badly('tools', 'a list of tools', undefined, null, 5, {}, 'read'),
    ...badly('schemaOf', 'a function', 'read', null, 5, {}),
    ...badly('schema', 'absent (known options: schemaOf)', true),
  ],
};
