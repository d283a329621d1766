// Turns of an agent that runs in the page, and asks a model by itself.
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { useAgentTurn } from '../../../src/frontend/react.js';
import { createAgentTurn } from '../../../src/index.js';
import { agentUrl, show, Transcript } from './chat.js';

const turns = createAgentTurn({
  async *model(messages, { signal }) {
    const response = await fetch(agentUrl('chat'), { method: 'POST', body: JSON.stringify({ messages }), signal });
    if (!response.body) throw new Error('nothing came');
    const events = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
    for await (const { data } of events) if (data !== '[DONE]') yield JSON.parse(data) as unknown;
  },
});
let actions: Pick<ReturnType<typeof useAgentTurn<string, never>>, 'ask' | 'stop'>;

function Page() {
  const { view, status, ask, stop } = useAgentTurn(turns, 'chat');
  actions = { ask, stop };
  const last = view.messages.at(-1);
  const said = status === 'running' ? view.text : last?.role === 'assistant' ? last.content : '';
  return <Transcript text={said} status={status} />;
}

show(<Page />, {
  send: (text) => {
    actions.ask(text);
  },
  stop: () => {
    actions.stop();
  },
});
