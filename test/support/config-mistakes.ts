/** Mistakes in a configuration, and all that is said about each; docs/config.md shows the messages. */
export const configMistakes: readonly { readonly text: string; readonly messages: readonly string[] }[] = [
  {
    text: 'limits:\n  concurency: 4\n',
    messages: ['`limits.concurency`, line 2: expected a known key (did you mean `concurrency`?), got one that is not'],
  },
  {
    text: 'limits:\n  requests_per_second: 5\n',
    messages: ['`limits.requests_per_second`, line 2: expected a known key (did you mean `requestsPerSecond`?), got one that is not'],
  },
  {
    text: 'batches: { tokensPerMinute: 5 }\n',
    messages: [
      '`batches.tokensPerMinute`, line 1: expected a known key (it belongs to `limits`; known: concurrency, scheduling, priority, maxQueued), got one that is not',
    ],
  },
  { text: 'limits: { concurrency: 0 }\n', messages: ['`limits.concurrency`, line 1: expected a whole number >= 1, got `0`'] },
  { text: 'limits: { concurrency: "4" }\n', messages: ['`limits.concurrency`, line 1: expected a whole number >= 1, got a text'] },
  {
    text: 'limits: { concurrency: "${WORD}" }\n',
    messages: ['`limits.concurrency`, line 1: expected a whole number >= 1, got what `WORD` holds'],
  },
  { text: 'limits: { headroom: 90 }\n', messages: ['`limits.headroom`, line 1: expected a number from 0.01 to 1, got `90`'] },
  { text: 'limits: { tokensPerMinute: }\n', messages: ['`limits.tokensPerMinute`, line 1: expected a number > 0, got nothing'] },
  {
    text: 'limits:\n  concurrency: ${CALLS}\n',
    messages: [
      '`limits.concurrency`, line 2: expected the variable `CALLS` to be set (or a default, `${CALLS:-…}`), got none of that name',
    ],
  },
  {
    text: 'name: ${CALLS\n',
    messages: ['`name`, line 1: expected `${NAME}` or `${NAME:-default}` (`$${` for the signs themselves), got one that is not complete'],
  },
  {
    text: 'limits: { requestsPerSecond: 5, requestsPerMinute: 300 }\n',
    messages: ['`limits.requestsPerSecond`, line 1: expected either this or `requestsPerMinute`, got both'],
  },
  {
    text: 'limits: { burst: 10 }\n',
    messages: ['`limits.burst`, line 1: expected a rate beside it, `requestsPerSecond` or `requestsPerMinute`, got none'],
  },
  {
    text: 'limits: { lanes: [now, now] }\n',
    messages: ['`limits.lanes[1]`, line 1: expected each name once, got one for the second time'],
  },
  {
    text: 'lane: P7\n',
    messages: ['`lane`, line 1: expected one of `user`, `normal`, `background`, or `limits.lanes` that name it, got a text'],
  },
  {
    text: 'batches: { scheduling: prioritty }\n',
    messages: ['`batches.scheduling`, line 1: expected one of `fair`, `priority`, `roundRobin` (did you mean `priority`?), got a text'],
  },
  {
    text: 'batches: { scheduling: priority }\n',
    messages: ['`batches.priority`, line 1: expected the field that says how urgent a document is, got nothing'],
  },
  {
    text: 'batches: { priority: rank }\n',
    messages: ['`batches.priority`, line 1: expected `scheduling: priority` beside it, got another'],
  },
  {
    text: 'model:\n  apiKey: sk-1234\n',
    messages: ['`model.apiKey`, line 2: expected no key in a file: name the variable that holds it, `apiKeyEnv: OPENAI_API_KEY`, got one'],
  },
  {
    text: 'model: { baseUrl: localhost }\n',
    messages: ['`model.baseUrl`, line 1: expected an http(s) URL such as `https://host/v1`, got a text'],
  },
  {
    text: 'model: { baseUrl: "http://[" }\n',
    messages: ['`model.baseUrl`, line 1: expected a URL that can be called, such as `https://host/v1`, got a text'],
  },
  {
    text: 'model: { baseUrl: "https://me:word@host/v1" }\n',
    messages: [
      '`model.baseUrl`, line 1: expected a URL alone: what is secret goes by `apiKeyEnv`, or into `headers`, got one with a user or a password',
    ],
  },
  {
    text: 'model: { headers: { x-team: "a\\nb" } }\n',
    messages: ['`model.headers.x-team`, line 1: expected what a header can carry, got something else'],
  },
  {
    text: 'model: { headers: { my team: a } }\n',
    messages: ['`model.headers`, line 1: expected names that a header can have, got another'],
  },
  { text: 'model: { retry: true }\n', messages: ['`model.retry`, line 1: expected `false` or a mapping, got `true`'] },
  { text: 'stages: []\n', messages: ['`stages`, line 1: expected a list of at least one, got an empty list'] },
  {
    text: 'stages: [{ prompt: hi }]\n',
    messages: ['`stages[0].name`, line 1: expected a name of letters, digits, `_` and `-`, first no digit, got nothing'],
  },
  {
    text: 'stages: [{ name: 1st }]\n',
    messages: ['`stages[0].name`, line 1: expected a name of letters, digits, `_` and `-`, first no digit, got a text'],
  },
  {
    text: 'stages:\n  - { name: ask, prompt: hi }\n  - { name: ask, prompt: ho }\n',
    messages: ['`stages[1].name`, line 3: expected each name once, got one for the second time'],
  },
  {
    text: 'stages: [{ name: ask, prompt: hi, chunk: { field: text } }]\n',
    messages: ['`stages[0].chunk`, line 1: expected either this or `prompt`, got both'],
  },
  {
    text: 'stages:\n  - name: ask\n    prompt: "{{grade}} {{}}"\n  - name: grade\n',
    messages: [
      '`stages[0].prompt`, line 3: expected fields and earlier stages in `{{…}}`, got a stage that has no answer by then',
      '`stages[0].prompt`, line 3: expected a name in each pair of `{{` and `}}`, got nothing between them',
    ],
  },
  {
    text: 'concurrency:\n  request_level:\n    connection_pool: { size: 20 }\n',
    messages: [
      '`concurrency.request_level.connection_pool`, line 3: expected no such key: the runtime keeps its connections itself, and nothing would read this, got one',
    ],
  },
  { text: 'name: a\nname: b\n', messages: ['line 2: expected each key once, got a key for the second time'] },
  { text: 'limits:\n\tconcurrency: 4\n', messages: ['line 2: expected spaces before a key, got a tab'] },
  {
    text: 'limits: { concurrency: ${CALLS} }\n',
    messages: ['line 1: expected YAML, and quotes around `${…}` within `{ }` and `[ ]`, got a sign that is none of it'],
  },
  { text: 'name: "papers\n', messages: ['line 2: expected YAML, got what is none (missing char)'] },
  { text: '- limits\n', messages: ['line 1: expected a mapping, got a list'] },
];
