import type { StageConfig } from '../../edge/config/schema.js';
import { ANSWER_FAULTS, type AnswerFault } from '../../pipelines/finish-reason.js';
import type { ChatMessage } from '../../pipelines/models/chat-api.js';
import { AnswerError, type AnswerKind, readAnswer } from './answer.js';
import { isTooDeep, MOST_NESTED } from './nesting.js';

/** What a stage says of its answers. */
export interface AnswerRules extends Pick<StageConfig, 'fixAnswer' | 'gleaning'> {
  readonly answer: AnswerKind;
  readonly accept: readonly AnswerFault[];
  /** What the text of an answer stands for. @throws AnswerError when it is not what it was to be */
  readonly read?: (text: string) => unknown;
}

/** A request that is made of the messages so far. Resolves to the text of its answer, which `kind` says how to read. */
export type Ask = (messages: readonly ChatMessage[], kind: AnswerKind, accept: readonly AnswerFault[]) => Promise<string>;

/**
 * What comes of an item: the answer to its prompt, asked for again while it is not what it was to be, and what `gleaning` adds.
 *
 * @param fill fills in the placeholders of a prompt
 * @throws AnswerError when an answer is of no use
 */
export async function converse(
  rules: AnswerRules,
  first: readonly ChatMessage[],
  ask: Ask,
  fill: (prompt: string) => string,
): Promise<unknown> {
  const { answer, gleaning } = rules;
  const chat = new Chat(rules, first, ask);
  const value = await chat.answer();
  if (gleaning === undefined) return value;
  const { rounds = 1, prompt, continue: question } = gleaning;
  const values = [value];
  for (let round = 1; round <= rounds; round++) {
    chat.say(fill(prompt));
    values.push(await chat.answer());
    if (round < rounds && question !== undefined && !(await chat.isYes(fill(question)))) break;
  }
  return joined(answer, values);
}

/** One conversation with a model. */
class Chat {
  readonly #rules: AnswerRules;
  readonly #ask: Ask;
  readonly #messages: ChatMessage[];

  constructor(rules: AnswerRules, first: readonly ChatMessage[], ask: Ask) {
    this.#rules = rules;
    this.#ask = ask;
    this.#messages = [...first];
  }

  say(content: string): void {
    this.#messages.push({ role: 'user', content });
  }

  /** What the model answers, which is asked again as often as `fixAnswer` says. */
  async answer(): Promise<unknown> {
    const { answer, accept, fixAnswer, read = (text: string) => readAnswer(answer, text) } = this.#rules;
    const rounds = fixAnswer?.rounds ?? 0;
    for (let round = 0; ; round++) {
      const text = await this.#ask([...this.#messages], answer, accept);
      this.#messages.push({ role: 'assistant', content: text });
      try {
        return read(text);
      } catch (error) {
        if (!(error instanceof AnswerError)) throw error;
        if (round === rounds) throw rounds === 0 ? error : stillWrong(error, rounds);
        this.say(correctionOf(error, answer));
      }
    }
  }

  /** Whether the model answers a question with yes. Neither stays in the conversation. */
  async isYes(question: string): Promise<boolean> {
    const text = await this.#ask([...this.#messages, { role: 'user', content: question }], 'text', ANSWER_FAULTS);
    return /^["'`*]*yes\b/i.test(text.trim());
  }
}

/** What the model is told of an answer that is not what it was to be. */
function correctionOf({ message }: AnswerError, kind: AnswerKind): string {
  const problem = `${message.charAt(0).toUpperCase()}${message.slice(1)}`;
  return `${problem}. Answer again with ${kind === 'list' ? 'a JSON list' : 'JSON'} and nothing else.`;
}

function stillWrong({ message, fault, partial }: AnswerError, rounds: number): AnswerError {
  const times = rounds === 1 ? 'once' : `${String(rounds)} times`;
  return new AnswerError(`${message}, although it was asked for again ${times} (\`fixAnswer\`)`, fault, partial);
}

/** One value of several answers: texts line by line, the elements of all lists, or a list of JSON values. */
function joined(kind: AnswerKind, values: readonly unknown[]): unknown {
  if (kind === 'text') return values.join('\n');
  const value = kind === 'list' ? values.flat() : values;
  if (!isTooDeep(value)) return value;
  throw new AnswerError(`the answers together are nested more than ${String(MOST_NESTED)} deep`, 'format');
}
