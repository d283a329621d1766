import type { Observable } from 'rxjs';
import { from } from 'rxjs';
import * as z from 'zod';
import { virtualTime } from '../../marbles/virtual.js';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import type { AgentTurnOptions, AgentTurns, TurnEvent, TurnMessage } from '../../src/frontend/turn-types.js';
import type { Tool } from '../../src/pipelines/tools/tool-types.js';

/** Takes whatever a model says. */
export const anything = z.unknown();

/** A tool that takes anything. */
export function tool(name: string, execute: Tool['execute'], options: Partial<Tool> = {}): Tool {
  return { name, description: name, parameters: anything, execute, ...options };
}

/** What a model says to call a tool. */
export function calls(name: string, input: unknown = {}, id = `call_${name}`) {
  return { type: 'toolCall', call: { id, name, input } } as const;
}

/** Says, at each step of a turn, what stands there; the last for all that follow. */
export function says(...steps: readonly (readonly unknown[])[]): AgentTurnOptions['model'] {
  return (_messages, { step }) => from(steps[Math.min(step, steps.length) - 1] ?? []);
}

/** One line for an event, with its step. */
export function line(event: TurnEvent): string {
  const { type, step } = event;
  const at = `${String(step)} ${type}`;
  switch (event.type) {
    case 'delta':
      return `${at} ${event.text}`;
    case 'toolCall':
    case 'pending':
      return `${at} ${event.call.id}`;
    case 'answered':
      return `${at} ${event.call.id} ${String(event.isAllowed)}`;
    case 'toolResult':
      return `${at} ${event.result.tool_use_id}: ${event.result.is_error ? event.result.error.code : event.result.content}`;
    case 'finished':
    case 'cancelled':
      return `${at} ${event.reason}`;
    case 'failed':
      return `${at} ${(event.error as Error).name}`;
    default:
      return at;
  }
}

/** A message in a word. */
export function word(message: TurnMessage): string {
  if (message.role === 'tool')
    return `${message.toolCallId}=${message.isError ? (/"code":"(\w+)"/.exec(message.content)?.[1] ?? '') : message.content}`;
  if (message.role === 'user') return `? ${message.content as string}`;
  return `! ${message.content}${message.toolCalls.map(({ id }) => ` @${id}`).join('')}${message.isCut ? ' (cut)' : ''}`;
}

/** Lives with turns in virtual time; answers what all events were, and when. */
export function lived(
  options: AgentTurnOptions,
  act: (turns: AgentTurns, clock: { advance: (ms: number) => void; ask: (intent: string, key?: string) => void }) => void,
): { readonly events: readonly string[]; readonly history: readonly string[]; readonly turns: AgentTurns } {
  return virtualTime(({ advance, flush, now }) => {
    const turns = createAgentTurn(options);
    const events: string[] = [];
    turns.events.subscribe((event) => events.push(`${String(now())}: ${line(event)}`));
    const ask = (intent: string, key = 'default'): void => {
      turns.ask(intent, { key }).subscribe();
    };
    act(turns, { advance, ask });
    flush();
    return { events, history: turns.history().map(word), turns };
  });
}

/** Everything of a turn, once it is over. */
export async function whole(turn: Observable<TurnEvent>): Promise<TurnEvent[]> {
  const events: TurnEvent[] = [];
  await turn.forEach((event) => void events.push(event));
  return events;
}
