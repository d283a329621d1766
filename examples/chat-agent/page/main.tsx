import type { SyntheticEvent } from 'react';
import { StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { useFlowValue } from '../../../src/frontend/react.js';
import { ask, chat, stop } from './chat.js';
import { log } from './log.js';

function Transcript() {
  const messages = useFlowValue(chat, (state) => state.messages);
  return messages.map(({ id, role, content, ...more }) => (
    <p key={id} className={role}>
      {typeof content === 'string' ? content : ''}
      {'toolCalls' in more && more.toolCalls.map((call) => `${call.function.name}(${call.function.arguments})`).join(', ')}
    </p>
  ));
}

function Question() {
  const [text, setText] = useState('');
  const status = useFlowValue(chat, (state) => state.status);
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (text.trim() === '') return;
    void ask(text);
    setText('');
  };
  return (
    <form onSubmit={submit}>
      <input
        autoFocus
        aria-label="Question"
        value={text}
        onChange={({ target }) => {
          setText(target.value);
        }}
        placeholder={status === 'running' ? 'Ask something else: the answer is given up' : 'Ask: what time is it?'}
      />
      <button>Ask</button>
      <button type="button" disabled={status !== 'running'} onClick={stop}>
        Stop
      </button>
      <output>{status}</output>
    </form>
  );
}

function ServerLog() {
  const { model, lines } = useFlowValue(log);
  return (
    <aside>
      <h2>What the server saw</h2>
      <p>Answers come from {model || '…'}.</p>
      <ol id="log">
        {lines.map(({ question, end, pieces }, i) => (
          <li key={i} data-end={end}>
            {question}: {end}
            {end !== 'running' && ` after ${pieces} pieces`}
          </li>
        ))}
      </ol>
    </aside>
  );
}

createRoot(document.querySelector('#root') as HTMLElement).render(
  <StrictMode>
    <h1>Chat with an agent</h1>
    <main>
      <section>
        <Transcript />
        <Question />
      </section>
      <ServerLog />
    </main>
  </StrictMode>,
);
