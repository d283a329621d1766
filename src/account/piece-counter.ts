/** Text that is collected before its tokens are estimated. */
const FEW_CHARS = 4_096;
/** A token of most languages has as many letters; of those with other signs than Latin ones it has one. */
const LETTERS = 4;

/** Tokens of a text, within a third or so, for a client that cannot say. */
function roughly(text: string): number {
  const latin = text.replace(/[\u0250-\uffff]/g, '').length;
  return Math.ceil(latin / LETTERS) + (text.length - latin);
}

/** Estimates the output of a stream by its pieces, of which one alone may be part of a token. */
export class PieceCounter {
  readonly #estimate: (text: string) => number;
  #text = '';
  #tokens = 0;

  /** @param estimate - counts the tokens of a text */
  constructor(estimate: (text: string) => number = roughly) {
    this.#estimate = estimate;
  }

  add(event: unknown): void {
    this.#text += pieceIn(event);
    if (this.#text.length < FEW_CHARS) return;
    this.#tokens += this.#estimate(this.#text);
    this.#text = '';
  }

  get tokens(): number {
    return this.#tokens + (this.#text === '' ? 0 : this.#estimate(this.#text));
  }
}

/** What one event of a stream adds to the output: text, reasoning and arguments of tools, in the places where the APIs put them. */
function pieceIn(event: unknown): string {
  const { choices, delta, candidates, message, response, type } = Object(event) as Readonly<Record<string, unknown>>;
  let piece = '';
  const add = (text: unknown): void => {
    if (typeof text === 'string') piece += text;
  };
  for (const choice of listOf(choices)) {
    const { content, reasoning, reasoning_content, refusal, tool_calls } = Object(choice['delta']) as Readonly<Record<string, unknown>>;
    for (const text of [content, reasoning ?? reasoning_content, refusal, choice['text']]) add(text);
    for (const call of listOf(tool_calls)) add((Object(call['function']) as Readonly<Record<string, unknown>>)['arguments']);
  }
  // Responses, and Anthropic's blocks.
  if (typeof delta === 'string') {
    if (String(type).endsWith('.delta')) add(delta);
  } else {
    const { text, partial_json, thinking } = Object(delta) as Readonly<Record<string, unknown>>;
    for (const part of [text, partial_json, thinking]) add(part);
  }
  for (const candidate of listOf(candidates))
    for (const part of listOf((Object(candidate['content']) as Readonly<Record<string, unknown>>)['parts'])) {
      add(part['text']);
      if (part['functionCall'] !== undefined) piece += JSON.stringify(part['functionCall']);
    }
  // Ollama.
  if (type === undefined) {
    add(response);
    add((Object(message) as Readonly<Record<string, unknown>>)['content']);
  }
  return piece;
}

function listOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? (value as unknown[]).map((one) => Object(one) as Readonly<Record<string, unknown>>) : [];
}
