import { toToolDefinitions } from '../../src/pipelines/tools/tool-definitions.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'toToolDefinitions',
  create: () => toToolDefinitions([], 'responses'),
  optionless: true,
  calls: {
    'tools[0].jsonSchema': (jsonSchema: never) =>
      toToolDefinitions(
        [{ name: 'a', description: 'A.', parameters: { safeParse: () => ({}) as never }, execute: () => 'a', jsonSchema }],
        'chat',
      ),
    protocol: (protocol: never) => toToolDefinitions([], protocol),
    tools: (tools: never) => toToolDefinitions(tools, 'chat'),
  },
  rows: [
    ...badly('protocol', "one of 'chat', 'responses', 'anthropic', 'ag-ui'", 'openai', undefined, null, 5, {}),
    ...badly('tools', 'a list of tools', undefined, null, 5, {}, 'read'),
    ...badly('tools[0].jsonSchema', 'the JSON Schema of an object', null, {}, { type: 'string' }),
  ],
};
