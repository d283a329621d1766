import { Client } from '@modelcontextprotocol/client';
import { limitMcp } from '../../src/adapters/mcp.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown } from '../support/misuse.js';
import { CALL_RULES, callRuleRows, jobRows, nested } from './call-rules.js';

const client = (): Client => new Client({ name: 'test', version: '1' });
const own = 'tools, readConcurrency, writeConcurrency, maxQueued, job, maxSilenceMs';
const call = (options: unknown): unknown => limitMcp(client()).callTool({ name: 'look' }, options as never);

export const rows: MisuseTable = {
  operator: 'limitMcp',
  create: (options) => limitMcp(client(), nested(options) as never),
  calls: {
    client: (value) => limitMcp(value),
    'callTool.name': (value) => limitMcp(client()).callTool({ name: value }),
    'callTool.call options': call,
    'McpCallOptions.signal': (value) => call({ signal: value }),
    'McpCallOptions.onProgress': (value) => call({ onProgress: value }),
    'McpCallOptions.maxSilenceMs': (value) => call({ maxSilenceMs: value }),
    'McpCallOptions.timeout': (value) => call({ timeout: value }),
  },
  rows: [
    ...callRuleRows,
    ...badly('client', 'a client of the MCP SDK', undefined, null, {}, 5, 'client', { callTool: () => 1 }),
    ...badly('tools', 'a list of tools', null, {}, 'look', 5),
    ...badly('readConcurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '8', null),
    ...badly('writeConcurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '1', null),
    ...badly('maxQueued', 'a whole number >= 0 or Infinity', -1, 1.5, NaN, '4', null),
    ...badly('maxSilenceMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...jobRows,
    ...unknown('priority', `${CALL_RULES}, ${own}`, 5),
    ...misspelt('timeout', 'timeoutMs', 5),
    ...badly('callTool.name', 'a non-empty string', '', 5, null, undefined, {}),
    ...badly('callTool.call options', 'an object', null, 5, 'user'),
    ...badly('McpCallOptions.signal', 'an AbortSignal', null, 5, {}, new AbortController()),
    ...badly('McpCallOptions.onProgress', 'a function', null, 5, {}),
    ...badly('McpCallOptions.maxSilenceMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...unknown('McpCallOptions.timeout', 'signal, onProgress, maxSilenceMs', 5),
  ],
};
