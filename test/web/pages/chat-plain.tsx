// AG-UI as its guides have it: `runAgent`, and a state that is set for every event. With `?flow`, the same behind the middlewares.
import { HttpAgent } from '@ag-ui/client';
import { useEffect, useState } from 'react';
import { aguiFlow } from '../../../src/adapters/ag-ui.js';
import { agentUrl, history, pace, query, show, Transcript } from './chat.js';

const flow = 'flow' in query ? aguiFlow({ coalesce: pace }) : undefined;
const agent = new HttpAgent({ url: agentUrl('ag-ui'), initialMessages: [...history], ...(flow && { fetch: flow.fetch }) });
if (flow) agent.use(flow.coalesce, flow.switchRuns, flow.runTools);

function Page() {
  const [messages, setMessages] = useState(agent.messages);
  const [status, setStatus] = useState('idle');
  useEffect(() => {
    const { unsubscribe } = agent.subscribe({
      onMessagesChanged: (changed) => {
        setMessages([...changed.messages]);
      },
      onRunStartedEvent: () => {
        setStatus('running');
      },
      onRunFinishedEvent: () => {
        setStatus('finished');
      },
      onRunErrorEvent: () => {
        setStatus('failed');
      },
    });
    return () => {
      unsubscribe();
      agent.abortRun();
    };
  }, []);
  const answer = messages.findLast(({ role }) => role === 'assistant');
  return <Transcript text={answer?.id.startsWith('message') ? (answer.content as string) : ''} status={status} />;
}

show(<Page />, {
  send: (content) => {
    agent.addMessage({ id: crypto.randomUUID(), role: 'user', content });
    agent.runAgent().catch(() => undefined);
  },
  stop: () => {
    agent.abortRun();
  },
});
