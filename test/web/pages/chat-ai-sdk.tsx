// The AI SDK's own hook; with `?flow`, its transport behind ours.
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';
import { useEffect } from 'react';
import { flowTransport } from '../../../src/adapters/ai-sdk.js';
import { agentUrl, pace, query, show, Transcript } from './chat.js';

const direct = new DefaultChatTransport({ api: agentUrl('ai-sdk') });
const transport = 'flow' in query ? flowTransport(direct, pace) : direct;
let actions: Pick<ReturnType<typeof useChat>, 'sendMessage' | 'stop'>;

function Page() {
  const { messages, sendMessage, status, stop } = useChat({ transport });
  actions = { sendMessage, stop };
  useEffect(() => () => void stop(), [stop]);
  const last = messages.at(-1);
  const parts = last?.role === 'assistant' ? last.parts : [];
  return <Transcript text={parts.map((part) => (part.type === 'text' ? part.text : '')).join('')} status={status} />;
}

show(<Page />, {
  send: (text) => {
    void actions.sendMessage({ text });
  },
  stop: () => {
    void actions.stop();
  },
});
