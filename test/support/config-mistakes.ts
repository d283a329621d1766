/** Mistakes in a configuration, and all that is said about each; docs/config.md shows the messages. */
export const configMistakes: readonly { readonly text: string; readonly messages: readonly string[] }[] = [
  {
    text: 'limits:\n  concurency: 4\n',
    messages: ['`limits.concurency`, line 2: unknown key `concurency`. Did you mean `concurrency`?'],
  },
  {
    text: 'limits:\n  requests_per_second: 5\n',
    messages: ['`limits.requests_per_second`, line 2: unknown key `requests_per_second`. Did you mean `requestsPerSecond`?'],
  },
  {
    text: 'stages:\n  - name: ask\n    promt: hi\n',
    messages: ['`stages[0].promt`, line 3: unknown key `promt`. Did you mean `prompt`?'],
  },
  {
    text: 'batches: { tokensPerMinute: 5 }\n',
    messages: ['`batches.tokensPerMinute`, line 1: unknown key `tokensPerMinute`. It belongs to `limits`.'],
  },
  { text: 'limits: { concurrency: 0 }\n', messages: ['`limits.concurrency`, line 1: expected a whole number >= 1, got `0`'] },
  {
    text: 'limits: { concurrency: "4" }\n',
    messages: ['`limits.concurrency`, line 1: expected a whole number >= 1, got a number in quotes'],
  },
  {
    text: 'limits: { concurrency: "${WORD}" }\n',
    messages: ['`limits.concurrency`, line 1: expected a whole number >= 1, got the value of `WORD`'],
  },
  { text: 'limits: { headroom: 90 }\n', messages: ['`limits.headroom`, line 1: expected a number from 0.01 to 1, got `90`'] },
  { text: 'limits: { tokensPerMinute: }\n', messages: ['`limits.tokensPerMinute`, line 1: expected a number > 0, got nothing'] },
  {
    text: 'limits:\n  concurrency: ${CALLS}\n',
    messages: ['`limits.concurrency`, line 2: the environment variable `CALLS` is not set. Set it, or write a default: `${CALLS:-…}`.'],
  },
  {
    text: 'name: ${CALLS\n',
    messages: ['`name`, line 1: incomplete variable. Write `${NAME}` or `${NAME:-default}`, or `$${` for a literal `${`.'],
  },
  {
    text: 'limits: { requestsPerSecond: 5, requestsPerMinute: 300 }\n',
    messages: ['`limits.requestsPerSecond`, line 1: `requestsPerSecond` cannot be combined with `requestsPerMinute`. Remove one of them.'],
  },
  {
    text: 'limits: { burst: 10 }\n',
    messages: ['`limits.burst`, line 1: `burst` needs a rate. Add `requestsPerSecond` or `requestsPerMinute`.'],
  },
  {
    text: 'limits: { lanes: [now, now] }\n',
    messages: ['`limits.lanes[1]`, line 1: two lanes have the same name. Rename one of them.'],
  },
  {
    text: 'lane: P7\n',
    messages: ['`lane`, line 1: unknown lane. Use `user`, `normal` or `background`, or declare it in `limits.lanes`.'],
  },
  {
    text: 'batches: { scheduling: prioritty }\n',
    messages: ['`batches.scheduling`, line 1: unknown value. Did you mean `priority`?'],
  },
  {
    text: 'batches: { scheduling: priority }\n',
    messages: ['`batches.priority`, line 1: `scheduling: priority` needs `priority`. Add the field that says how urgent a document is.'],
  },
  {
    text: 'batches: { priority: rank }\n',
    messages: ['`batches.priority`, line 1: `priority` needs `scheduling: priority`. Add it, or remove `priority`.'],
  },
  {
    text: 'model:\n  apiKey: sk-1234\n',
    messages: [
      '`model.apiKey`, line 2: API keys do not belong in the file. Name the environment variable that holds it: `apiKeyEnv: OPENAI_API_KEY`.',
    ],
  },
  {
    text: 'model: { baseUrl: localhost }\n',
    messages: ['`model.baseUrl`, line 1: expected an http(s) URL such as `https://host/v1`, got a text'],
  },
  {
    text: 'model: { baseUrl: "http://[" }\n',
    messages: ['`model.baseUrl`, line 1: invalid URL. Write it like `https://host/v1`.'],
  },
  {
    text: 'model: { baseUrl: "https://me:word@host/v1" }\n',
    messages: ['`model.baseUrl`, line 1: the URL contains a user or a password. Use `apiKeyEnv` or `headers` instead.'],
  },
  {
    text: 'model: { headers: { x-team: "a\\nb" } }\n',
    messages: ['`model.headers.x-team`, line 1: the value cannot be sent as a header. Remove line breaks and characters outside Latin-1.'],
  },
  {
    text: 'model: { headers: { my team: a } }\n',
    messages: ['`model.headers`, line 1: invalid header name. Use letters, digits and `-`.'],
  },
  { text: 'model: { retry: true }\n', messages: ['`model.retry`, line 1: expected `false` or a mapping, got `true`'] },
  { text: 'stages: []\n', messages: ['`stages`, line 1: expected a list with at least one entry, got an empty list'] },
  {
    text: 'stages: [{ prompt: hi }]\n',
    messages: ['`stages[0].name`, line 1: expected a name of letters, digits, `_` and `-` that does not start with a digit, got nothing'],
  },
  {
    text: 'stages: [{ name: 1st }]\n',
    messages: ['`stages[0].name`, line 1: expected a name of letters, digits, `_` and `-` that does not start with a digit, got a text'],
  },
  {
    text: 'stages:\n  - { name: ask, prompt: hi }\n  - { name: ask, prompt: ho }\n',
    messages: ['`stages[1].name`, line 3: two stages have the same name. Rename one of them.'],
  },
  {
    text: 'stages: [{ name: ask, prompt: hi, chunk: { field: text } }]\n',
    messages: ['`stages[0].chunk`, line 1: `chunk` cannot be combined with `prompt`. Remove one of them.'],
  },
  {
    text: 'stages: [{ name: ask, prompt: hi, fixAnswer: { rounds: 1 } }]\n',
    messages: ['`stages[0].fixAnswer`, line 1: `fixAnswer` needs `answer: json` or `answer: list`. Add it, or remove `fixAnswer`.'],
  },
  {
    text: 'stages: [{ name: ask, prompt: hi, gleaning: { prompt: more, continue: more? } }]\n',
    messages: ['`stages[0].gleaning.continue`, line 1: `continue` is asked between two rounds. Add `rounds: 2` or more, or remove it.'],
  },
  {
    text: 'stages: [{ name: cut, chunk: { field: text }, cache: true }]\n',
    messages: ['`stages[0].cache`, line 1: `cache` cannot be combined with `chunk`. Remove one of them.'],
  },
  {
    text: 'stages: [{ name: cut, chunk: { field: text, overlapTokens: 20 } }]\n',
    messages: ['`stages[0].chunk.overlapTokens`, line 1: `overlapTokens` needs `maxTokens`. Add it.'],
  },
  {
    text: 'stages: [{ name: cut, chunk: { field: text, maxTokens: 50, overlapTokens: 30 } }]\n',
    messages: ['`stages[0].chunk.overlapTokens`, line 1: `overlapTokens` is more than half of `maxTokens`. Lower it.'],
  },
  {
    text: 'stages:\n  - name: ask\n    prompt: "{{grade}} {{}}"\n  - name: grade\n',
    messages: [
      '`stages[0].prompt`, line 3: `{{…}}` names a stage that has no answer yet. Use fields of the document and earlier stages.',
      '`stages[0].prompt`, line 3: `{{}}` is empty. Name a field or an earlier stage.',
    ],
  },
  {
    text: 'stages: [{ name: ask, prompt: hi, listLength: 20 }]\n',
    messages: ['`stages[0].listLength`, line 1: `listLength` needs `answer: list`. Add it, or remove `listLength`.'],
  },
  {
    text: 'concurrency:\n  batch_level: { scheduling: priority }\n',
    messages: [
      '`concurrency.batch_level.priority`, line 2: `scheduling: priority` needs `priority`. Add the field that says how urgent a document is.',
    ],
  },
  { text: 'name: a\nname: b\n', messages: ['line 2, column 1: duplicate key. Remove or rename one of them.'] },
  { text: 'limits:\n\tconcurrency: 4\n', messages: ['line 2, column 1: invalid YAML: a tab as indentation. Use spaces.'] },
  {
    text: 'limits: { concurrency: ${CALLS} }\n',
    messages: [
      'line 1, column 25: invalid YAML: unexpected character. Check quotes and brackets; inside `{ }` and `[ ]`, write `"${…}"` with quotes.',
    ],
  },
  { text: 'name: "papers\n', messages: ['line 2, column 1: invalid YAML: a closing quote or bracket is missing. Add it.'] },
  { text: '- limits\n', messages: ['line 1, column 1: expected a mapping, got a list'] },
  {
    text: 'stages: [{ name: ask, prompt: "{{text" }]\n',
    messages: [
      '`stages[0].prompt`, line 1: `{{` opens a placeholder that does not end. Close it with `}}`; put a space between two braces that are text.',
    ],
  },
  {
    text: 'stages:\n  - name: ask\n    prompt: {{text}}\n',
    messages: ['line 3, column 13: `{{…}}` without quotes is a mapping in YAML. Put the whole text in quotes: `"… {{…}} …"`.'],
  },
  {
    text: 'model: { apiKeyEnv: sk-1234 }\n',
    messages: [
      '`model.apiKeyEnv`, line 1: expected the name of an environment variable, such as `OPENAI_API_KEY`, and not the key itself, got a text',
    ],
  },
  {
    text: 'model: { baseUrl: "https://host/v1/chat/completions" }\n',
    messages: ['`model.baseUrl`, line 1: the URL ends in the path of a request, which is added to it. Write `https://host/v1`.'],
  },
  {
    text: 'budget: { windowMs: 60000 }\n',
    messages: ['`budget.windowMs`, line 1: `windowMs` alone limits nothing. Add `usd` or `tokens`, or remove it.'],
  },
  {
    text: 'stages: [{ name: text, prompt: "say {{text}}" }]\n',
    messages: [
      '`stages[0].prompt`, line 1: `{{…}}` names its own stage, which hides a field of that name. Rename the stage, or name another field.',
    ],
  },
];
