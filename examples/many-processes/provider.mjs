// A provider that stands for a paid one: streams chat answers, and refuses with 429 what would bring the tokens of any window above its limit. It counts
// what arrives, by its own clock. Run: node provider.mjs '{"tokens":20000,"windowMs":10000}'; it prints its port, and its books when it gets SIGTERM.
import { createServer } from 'node:http';

const { tokens: limit, windowMs, refuses = true } = JSON.parse(process.argv[2]);
/** What was let in: when, and how many tokens. */
const arrivals = [];
let [first, inWindow, fullest, refused, answered, total] = [0, 0, 0, 0, 0, 0];
let [firstAt, lastAt] = [0, 0];

const server = createServer((request, response) => {
  let body = '';
  request.on('data', (part) => (body += part));
  request.on('end', () => {
    const at = performance.now();
    firstAt ||= at;
    lastAt = at;
    const { max_tokens: cost = 100 } = JSON.parse(body);
    while (first < arrivals.length && arrivals[first].at <= at - windowMs) inWindow -= arrivals[first++].cost;
    fullest = Math.max(fullest, inWindow + cost);
    if (refuses && inWindow + cost > limit) {
      refused++;
      response.writeHead(429, { 'content-type': 'application/json', 'retry-after-ms': '500' });
      response.end(JSON.stringify({ error: { message: 'rate limit reached', code: 'rate_limit_exceeded', type: 'tokens' } }));
      return;
    }
    arrivals.push({ at, cost });
    inWindow += cost;
    total += cost;
    answer(response, cost, 50 + Math.random() * 100);
  });
});

/** Streams an answer in four parts, with what it has used. */
function answer(response, cost, takesMs) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const say = (chunk) =>
    response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'small', ...chunk })}\n\n`);
  const parts = ['It ', 'is ', 'four', '.'];
  for (const [i, content] of parts.entries())
    setTimeout(() => say({ choices: [{ index: 0, delta: { content }, finish_reason: null }] }), (takesMs / parts.length) * i);
  setTimeout(() => {
    say({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    say({ choices: [], usage: { prompt_tokens: 0, completion_tokens: cost, total_tokens: cost } });
    response.end('data: [DONE]\n\n');
    answered++;
  }, takesMs);
}

server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
process.on('SIGTERM', () => {
  const seconds = (lastAt - firstAt) / 1000;
  const use = (total / limit) * (windowMs / Math.max(1, lastAt - firstAt));
  console.log(JSON.stringify({ answered, refused, fullest: fullest / limit, use, seconds }));
  process.exit();
});
