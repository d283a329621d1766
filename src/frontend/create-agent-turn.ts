import { FlowAgentTurns } from './flow-agent-turns.js';
import type { AgentTurnOptions, AgentTurns } from './turn-types.js';

export { AGENT_TURN_DEFAULTS, SPECULATE_DEFAULTS } from './turn-options.js';

/**
 * Questions in, everything that happens until they are answered out: the model is asked, the tools it asks for are called, it is asked again with their
 * results, until it has said its last word. The newest question of a conversation wins; conversations go on side by side.
 *
 * - **Emits when** a turn begins (`started`), the model says something (`delta`, `toolCall`), a person is waited for (`pending`, `answered`), a call is over
 *   (`toolResult`), a step is (`step`), and last of all one of `finished`, `cancelled` and `failed`.
 * - **Starts when** `ask` is subscribed to: the running turn of the conversation is ended first, its signals abort, and its `cancelled` comes before the new `started`.
 * - **Calls** the tools of a runner, `createToolRunner({ tools })`: arguments checked, guard asked, slots and time limits kept. Calls of a step run side by side.
 * - **Keeps** a history that a model takes at any time, whatever was cut: every call has its result, no answer is empty, no id is used twice.
 * - **Holds at most** the conversations that were not forgotten, and the turn under way in each.
 * - **Completes when** the turn is over.
 * - **Errors when** never: a failure is the event `failed`, and the next question works.
 * - **On unsubscribe** the turn is cancelled: signals abort, timers are cleared, calls are given up, the asker hears no more.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or the history is none that a model takes.
 * @example
 * ```ts
 * import { lastValueFrom, toArray } from 'rxjs';
 * import { createAgentTurn, createToolRunner, defineTool } from 'sluice';
 * import * as z from 'zod';
 *
 * const parameters = z.object({ city: z.string() });
 * const weather = defineTool({ name: 'weather', description: 'The weather.', parameters, execute: ({ city }) => `${city}: sunny` });
 * const turns = createAgentTurn({
 *   tools: createToolRunner({ tools: [weather] }),
 *   model: async function* (messages) {
 *     const last = messages.at(-1);
 *     if (last?.role === 'tool') yield `It is ${last.content}.`;
 *     else yield { type: 'toolCall', call: { id: 'call_1', name: 'weather', input: { city: 'Oslo' } } };
 *   },
 * });
 * const events = await lastValueFrom(turns.ask('How is the weather?').pipe(toArray()));
 * events.map(({ type }) => type); // => ['started', 'toolCall', 'toolResult', 'step', 'delta', 'step', 'finished']
 * turns.history().at(-1)?.content; // => 'It is Oslo: sunny.'
 * ```
 */
export function createAgentTurn<X = unknown>(options: AgentTurnOptions<X>): AgentTurns<X> {
  return new FlowAgentTurns(options);
}
