import type { Message, RunAgentResult } from '@ag-ui/client';
import { HttpAgent } from '@ag-ui/client';
import { Observable } from 'rxjs';
import { toStore } from '../../../operators/index.js';
import { aguiFlow } from '../../../src/adapters/ag-ui.js';
import { createToolRunner } from '../../../src/index.js';
import { tools } from './tools.js';

export interface Chat {
  readonly messages: readonly Message[];
  readonly status: 'idle' | 'running' | 'failed';
}

const flow = aguiFlow({ coalesce: { pace: 'frame' }, tools: createToolRunner({ tools }) });
const agent = new HttpAgent({ url: '/agent', fetch: flow.fetch });
agent.use(flow.coalesce, flow.switchRuns, flow.runTools);

/** What the agent says, as states of the page. Whoever leaves it aborts the run. */
const states = new Observable<Chat>((subscriber) => {
  let status: Chat['status'] = 'idle';
  const tell = (now: Chat['status'] = status): void => {
    status = now;
    subscriber.next({ messages: [...agent.messages], status });
  };
  const { unsubscribe } = agent.subscribe({
    onMessagesChanged: () => {
      tell();
    },
    onRunStartedEvent: () => {
      tell('running');
    },
    onRunFinishedEvent: () => {
      tell('idle');
    },
    onRunErrorEvent: ({ event }) => {
      tell(event.code === 'abort' ? 'idle' : 'failed');
    },
  });
  return () => {
    unsubscribe();
    agent.abortRun();
  };
});

export const chat = toStore(states, { messages: [], status: 'idle' } satisfies Chat as Chat, { pace: 'frame', keepAliveMs: 100 });

let asked = 0;

/** A question gives up the answer to the one before. What a tool has said goes back to the agent, which goes on with it. */
export async function ask(question: string): Promise<void> {
  const turn = ++asked;
  agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: question });
  let result: RunAgentResult;
  do result = await agent.runAgent({ tools: tools.map(({ name, description }) => ({ name, description, parameters: {} })) });
  while (turn === asked && result.newMessages.some(({ id }) => id.endsWith(':result')));
}

export function stop(): void {
  asked++;
  agent.abortRun();
}
