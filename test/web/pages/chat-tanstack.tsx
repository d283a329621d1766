// TanStack AI's own hook over AG-UI events; with `?flow`, the stream behind ours.
import { fetchServerSentEvents, useChat } from '@tanstack/ai-react';
import { flowStream } from '../../../src/adapters/tanstack-ai.js';
import { agentUrl, pace, query, show, Transcript } from './chat.js';

const direct = fetchServerSentEvents(agentUrl('ag-ui'));
const connection = 'flow' in query ? flowStream(direct, pace) : direct;
let actions: Pick<ReturnType<typeof useChat>, 'sendMessage' | 'stop'>;

function Page() {
  const { messages, sendMessage, isLoading, stop } = useChat({ connection });
  actions = { sendMessage, stop };
  const last = messages.at(-1);
  const parts = last?.role === 'assistant' ? last.parts : [];
  return (
    <Transcript text={parts.map((part) => (part.type === 'text' ? part.content : '')).join('')} status={isLoading ? 'running' : 'ready'} />
  );
}

show(<Page />, {
  send: (text) => {
    void actions.sendMessage(text);
  },
  stop: () => {
    actions.stop();
  },
});
