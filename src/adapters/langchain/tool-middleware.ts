import { createMiddleware, MiddlewareError, ToolInvocationError, ToolMessage } from 'langchain';
import { lastValueFrom } from 'rxjs';
import { check } from '../../../operators/build.js';
import { childOf, createLimiter } from '../../../operators/index.js';
import { TOOL_RUNNER_DEFAULTS } from '../../pipelines/defaults.js';
import type { CallJob } from '../support/call-job.js';
import { callOptionsOf } from '../support/call-job.js';
import type { CallPolicy, CallRules } from '../support/call-rules.js';
import { callPolicy } from '../support/call-rules.js';
import type { Middleware } from './agent-calls.js';
import { underSignal } from './agent-calls.js';

/** One limit for each tool, or limits by name; a tool that is not named has none. */
export type PerTool = number | Readonly<Record<string, number>>;

/**
 * What surrounds each tool call of an agent.
 * @beta
 */
export interface ToolMiddlewareOptions extends Pick<CallRules, 'limiter' | 'onEvent' | 'scheduler'> {
  /** Calls at a time, of all tools and all runs of the agent. Not together with `limiter`. @defaultValue 5 */
  readonly concurrency?: number;
  /** Calls at a time of each tool. @defaultValue Infinity: what `concurrency` or the `limiter` says about all of them */
  readonly toolConcurrency?: PerTool;
  /** Lane, key and cost of a call under the `limiter`: the same for all, or by the name of the tool. @defaultValue the last, least urgent lane */
  readonly job?: CallJob | ((tool: string) => CallJob);
  /** Longest call, in ms from its permit; its signal aborts. @defaultValue 30000 */
  readonly timeoutMs?: PerTool;
  /** Whether a failed call is reported to the model, as an agent without middleware does it, or ends the run. @defaultValue 'tell' */
  readonly errors?: 'tell' | 'throw';
}

/** What {@link createToolMiddleware} does when an option is left out. */
export const TOOL_MIDDLEWARE_DEFAULTS = {
  concurrency: TOOL_RUNNER_DEFAULTS.concurrency,
  toolConcurrency: Infinity,
  timeoutMs: TOOL_RUNNER_DEFAULTS.timeoutMs,
  errors: 'tell',
} as const;

const NAME = 'createToolMiddleware';

/**
 * Middleware for `createAgent` whose tool calls wait for each other: so many at a time of all tools, and so many of each. An agent by itself
 * starts all calls that a model asks for at once.
 *
 * - **Answers** as the tool does. A call that fails, or takes longer than `timeoutMs`, is reported to the model as a message of status `error`; with
 *   `errors: 'throw'` its error ends the run. LangChain's own signals (an interrupt, arguments of the wrong shape) keep their meaning.
 * - **On abort** of the run's signal what waits leaves and is never started; the signal of what runs aborts.
 * - **Holds at most** 1000 calls that wait, or what `limiter` says; 1000 of each tool with slots of its own.
 * - **Never** calls a tool twice: it may have had its effect.
 *
 * All agents that are given the same middleware share its limits. A tool that runs an agent needs other ones: else it can wait for itself.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { AIMessage, createAgent, fakeModel, tool } from 'langchain';
 * import { createToolMiddleware } from 'sluice/langchain/agents';
 *
 * const search = tool(({ word }: { word: string }) => `about ${word}`, { name: 'search', schema: { type: 'object' } });
 * const calls = ['otters', 'rivers'].map((word) => ({ name: 'search', args: { word }, id: word }));
 * const model = fakeModel().respondWithTools(calls).respond(new AIMessage('done'));
 * const middleware = [createToolMiddleware({ concurrency: 8, toolConcurrency: { search: 1 }, timeoutMs: 10_000 })];
 * const { messages } = await createAgent({ model, tools: [search], middleware }).invoke({ messages: 'Look it up' });
 * messages.slice(2, 4).map(({ text }) => text); // => ['about otters', 'about rivers']
 * ```
 */
export function createToolMiddleware(options: ToolMiddlewareOptions = {}): Middleware {
  check.onlyKnown(NAME, options, ['limiter', 'onEvent', 'scheduler', 'concurrency', 'toolConcurrency', 'job', 'timeoutMs', 'errors']);
  const d = TOOL_MIDDLEWARE_DEFAULTS;
  const { concurrency, toolConcurrency, job, timeoutMs, errors, limiter, ...rules } = options;
  const tells = check.oneOf('tell', 'throw')(NAME, 'errors', check.orDefault(errors, d.errors)) === 'tell';
  const slotsOf = perTool('toolConcurrency', check.orDefault(toolConcurrency, d.toolConcurrency), d.toolConcurrency, check.count);
  const timeoutOf = perTool('timeoutMs', check.orDefault(timeoutMs, d.timeoutMs), d.timeoutMs, check.positive);
  const optionsOf = callOptionsOf<string>(NAME, { ...(limiter && { limiter }), ...(job !== undefined && { job }) }, () => undefined);
  const all =
    check.limiter(NAME, 'limiter', limiter, concurrency) ??
    createLimiter({
      concurrency: check.count(NAME, 'concurrency', check.orDefault(concurrency, d.concurrency)),
      maxQueued: TOOL_RUNNER_DEFAULTS.maxQueued,
      scheduler: check.scheduler(NAME, 'scheduler', options.scheduler),
    });
  const policyOf = (tool: string): CallPolicy => {
    const slots = slotsOf(tool);
    const own = slots === Infinity ? all : childOf(all, { concurrency: slots });
    return callPolicy(NAME, { ...rules, limiter: own, retry: false, timeoutMs: timeoutOf(tool) }, [], 'tool');
  };
  // Only to look at the options: what is wrong with them is no matter of the first call.
  policyOf('');
  const policies = new Map<string, CallPolicy>();

  return createMiddleware({
    name: 'SluiceTools',
    wrapToolCall: async (request, handler) => {
      const { toolCall, tool, runtime } = request;
      // A model can think up any number of names; those of no tool share one lane.
      const name = tool === undefined ? '' : toolCall.name;
      const policy = policies.get(name) ?? policyOf(name);
      policies.set(name, policy);
      const { signal } = runtime;
      const call = async (until: AbortSignal) => handler({ ...request, tool: tool && underSignal(tool, until) });
      const calls = policy((attempt) => call(attempt.signal), optionsOf(name, signal));
      return lastValueFrom(calls).catch((error: unknown) => {
        if (!tells || signal?.aborted || isForLangChain(error)) throw error;
        return new ToolMessage({ content: String(error), tool_call_id: toolCall.id ?? '', name: toolCall.name, status: 'error' });
      });
    },
  });
}

/** The limit of a tool by its name. */
function perTool(
  option: string,
  limits: PerTool,
  others: number,
  check: (operator: string, option: string, value: unknown) => number,
): (tool: string) => number {
  if (typeof limits !== 'object' || (limits as unknown) === null) {
    const same = check(NAME, option, limits);
    return () => same;
  }
  for (const [tool, limit] of Object.entries(limits)) check(NAME, `${option}.${tool}`, limit);
  return (tool) => (Object.hasOwn(limits, tool) ? (limits[tool] as number) : others);
}

/** An interrupt, which waits for a human, and arguments the tool cannot take: the agent itself knows what to do about them. */
function isForLangChain(error: unknown): boolean {
  const { is_bubble_up, cause } = Object(error) as { readonly is_bubble_up?: unknown; readonly cause?: unknown };
  if (MiddlewareError.isInstance(error)) return isForLangChain(cause);
  return is_bubble_up === true || ToolInvocationError.isInstance(error);
}
