import { check } from '../../../operators/build.js';
import { FlowConfigError } from '../../../operators/index.js';
import { CALL_RULES_DEFAULTS } from './call-rules.js';
import type { McpRequest } from './mcp-link.js';
import type { McpCallerOptions, McpCallOptions, McpTool } from './mcp-types.js';

/** What `limitMcp` does when an option is left out; the rest is that of `policy`. */
export const MCP_RULES = /* @__PURE__ */ (() =>
  ({ ...CALL_RULES_DEFAULTS, readConcurrency: 8, writeConcurrency: 1, maxQueued: 1000 }) as const)();

export const NAME = 'limitMcp';
/** Options that are not rules of the calls. */
export const OWN: readonly string[] = ['tools', 'readConcurrency', 'writeConcurrency', 'maxQueued', 'job', 'maxSilenceMs'];
/** The longest that a timer of the platform takes, in ms. */
export const LONGEST_MS = 2 ** 31 - 1;

/** @throws FlowConfigError */
export function checkClient(client: unknown): void {
  const { callTool, listTools } = Object(client) as Readonly<Record<string, unknown>>;
  if (typeof callTool !== 'function' || typeof listTools !== 'function')
    throw new FlowConfigError(NAME, 'client', 'a client of the MCP SDK', client);
}

/** The options of its own, checked. */
export function callerOptions<T extends McpTool>(options: McpCallerOptions<T>, maxSilenceMs: number) {
  const { tools } = options;
  const areTools = Array.isArray(tools) && tools.every((tool) => typeof (Object(tool) as Partial<McpTool>).name === 'string');
  if (tools !== undefined && !areTools) throw new FlowConfigError(NAME, 'tools', 'a list of tools', tools);
  return {
    tools,
    readConcurrency: check.count(NAME, 'readConcurrency', check.orDefault(options.readConcurrency, MCP_RULES.readConcurrency)),
    writeConcurrency: check.count(NAME, 'writeConcurrency', check.orDefault(options.writeConcurrency, MCP_RULES.writeConcurrency)),
    maxQueued: check.countFromZero(NAME, 'maxQueued', check.orDefault(options.maxQueued, MCP_RULES.maxQueued)),
    maxSilenceMs: silence(options.maxSilenceMs, maxSilenceMs),
    timeoutMs: check.orDefault(options.timeoutMs, CALL_RULES_DEFAULTS.timeoutMs),
    scheduler: check.scheduler(NAME, 'scheduler', options.scheduler),
  };
}

/** What the client is to be told about a call, apart from its signal. */
export function requestOf(how: McpCallOptions, maxSilenceMs: number): Omit<McpRequest, 'signal'> {
  check.onlyKnown(NAME, how, ['signal', 'onProgress', 'maxSilenceMs'], 'call options');
  if (how.signal !== undefined) check.requiredSignal(NAME, 'signal', how.signal);
  return {
    timeout: Math.min(silenceOf(how, maxSilenceMs), LONGEST_MS),
    resetTimeoutOnProgress: true,
    onprogress: check.callback(NAME, 'onProgress', how.onProgress) ?? (() => undefined),
  };
}

/** The longest silence of a call. */
export function silenceOf(how: McpCallOptions, maxSilenceMs: number): number {
  return silence(how.maxSilenceMs, maxSilenceMs);
}

function silence(given: number | undefined, defaultMs: number): number {
  return check.positive(NAME, 'maxSilenceMs', check.orDefault(given, defaultMs));
}
