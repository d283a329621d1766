import { check } from '../../operators/build.js';
import { FlowConfigError } from '../../operators/index.js';
import { isBlank } from '../../src/frontend/turn-messages.js';

type Fields = Readonly<Record<string, unknown>>;

const NAME = 'messageFaults';

/** What both providers take as the name of a tool, and Anthropic as the id of a call. */
const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const CALL_ID = /^[a-zA-Z0-9_-]+$/;

/**
 * What a provider would refuse of a list of messages, before it is sent: a line for each fault, with its place; none for a list that is taken. Knows
 * the rules that conversations break when something was cut: every call has exactly one result, right after it; no answer and no text is blank; ids
 * are used once; arguments are objects; with Anthropic, roles come in their turns, results stand first, and thinking is signed and before something; with
 * Responses, reasoning is encrypted and before something.
 *
 * @param messages - of OpenAI's chat completions, items of its Responses, or of Anthropic's API: any list of yours, also one that `toMessages` has not made.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when `messages` is no list, or for a protocol there is not.
 * @example
 * ```ts
 * import { messageFaults } from 'sluice';
 *
 * const tool_calls = [{ id: 'call_1', type: 'function', function: { name: 'read', arguments: '{}' } }];
 * const messages = [{ role: 'user', content: 'Read it.' }, { role: 'assistant', content: null, tool_calls }, { role: 'user', content: 'Stop!' }];
 * messageFaults(messages, 'chat'); // => ['messages[2]: comes before the result of call_1']
 * ```
 */
export function messageFaults(messages: readonly object[], protocol: 'chat' | 'anthropic' | 'responses'): string[] {
  if (!Array.isArray(messages)) throw new FlowConfigError(NAME, 'messages', 'an array', messages);
  const { [check.oneOf('chat', 'anthropic', 'responses')(NAME, 'protocol', protocol)]: look } = {
    chat: chatFaults,
    anthropic: anthropicFaults,
    responses: responsesFaults,
  };
  return look(messages as readonly Fields[]);
}

// ---- OpenAI -----------------------------------------------------------------------------------------------------------

function chatFaults(messages: readonly Fields[]): string[] {
  const faults: string[] = [];
  /** Calls of the last answer that have no result. */
  let open: unknown[] = [];
  for (const [i, message] of messages.entries()) {
    const say = (fault: string): void => void faults.push(`messages[${String(i)}]: ${fault}`);
    if (message['role'] === 'tool') {
      const { tool_call_id: id, content } = message;
      if (!open.includes(id)) say(`answers ${String(id)}, which no call before it is waiting with`);
      open = open.filter((other) => other !== id);
      if (typeof content !== 'string' && !isFilledList(content)) say('has no content');
      continue;
    }
    for (const id of open) say(`comes before the result of ${String(id)}`);
    open = [];
    if (message['role'] === 'assistant') open = chatAnswerFaults(message, say);
    else if (message['role'] !== 'user' && message['role'] !== 'system' && message['role'] !== 'developer') say('has no role there is');
    else if (!isFilledText(message['content']) && !isFilledList(message['content'])) say('has no content');
  }
  for (const id of open) faults.push(`the end: comes before the result of ${String(id)}`);
  return faults;
}

function chatAnswerFaults({ content, tool_calls: calls }: Fields, say: (fault: string) => void): unknown[] {
  if (calls === undefined) {
    if (!isFilledText(content) && !isFilledList(content)) say('has neither content nor calls');
    return [];
  }
  if (!isFilledList(calls)) {
    say('has a list of calls with nothing in it');
    return [];
  }
  if (content !== null && content !== undefined && typeof content !== 'string' && !isFilledList(content)) say('has content that is none');
  const ids: unknown[] = [];
  for (const { id, type, function: called } of calls as readonly Fields[]) {
    if (typeof id !== 'string' || id === '') say('has a call without an id');
    if (ids.includes(id)) say(`has two calls with the id ${String(id)}`);
    ids.push(id);
    if (type !== 'function') say('has a call of no type there is');
    functionFaults(Object(called) as Fields, say);
  }
  return ids;
}

function functionFaults({ name, arguments: text }: Fields, say: (fault: string) => void): void {
  if (typeof name !== 'string' || !TOOL_NAME.test(name)) say('has a call of a tool whose name cannot be one');
  if (!isObject(parsed(text))) say('has a call whose arguments are no JSON object');
}

// ---- Anthropic --------------------------------------------------------------------------------------------------------

function anthropicFaults(messages: readonly Fields[]): string[] {
  const faults: string[] = [];
  const used = new Set<unknown>();
  let open: unknown[] = [];
  let lastRole: unknown = 'assistant';
  for (const [i, { role, content }] of messages.entries()) {
    const say = (fault: string): void => void faults.push(`messages[${String(i)}]: ${fault}`);
    if (role !== 'user' && role !== 'assistant') say('has no role there is');
    if (role === lastRole) say(i === 0 ? 'is an answer to nothing' : `follows another of role ${String(role)}`);
    lastRole = role;
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    if (!isFilledList(blocks)) {
      say('has no content');
      continue;
    }
    if (role === 'user') {
      userFaults(blocks as readonly Fields[], open, say);
      open = [];
    } else open = answerFaults(blocks as readonly Fields[], used, i === messages.length - 1, say);
  }
  if (messages.length === 0) faults.push('the end: there is no message');
  for (const id of open) faults.push(`the end: comes before the result of ${String(id)}`);
  return faults;
}

function userFaults(blocks: readonly Fields[], open: readonly unknown[], say: (fault: string) => void): void {
  const results = blocks.filter(({ type }) => type === 'tool_result').map(({ tool_use_id: id }) => id);
  for (const id of open) if (!results.includes(id)) say(`comes before the result of ${String(id)}`);
  for (const [i, id] of results.entries()) {
    if (!open.includes(id) || results.indexOf(id) !== i) say(`answers ${String(id)}, which no call before it is waiting with`);
  }
  if (blocks.slice(0, results.length).some(({ type }) => type !== 'tool_result')) say('has something before its results');
  for (const block of blocks) textFaults(block, say);
  if (blocks.some(isThought)) say('has thinking, which is for answers');
}

function isThought({ type }: Fields): boolean {
  return type === 'thinking' || type === 'redacted_thinking';
}

function answerFaults(blocks: readonly Fields[], used: Set<unknown>, isLast: boolean, say: (fault: string) => void): unknown[] {
  const ids: unknown[] = [];
  for (const block of blocks) {
    textFaults(block, say);
    if (block['type'] === 'tool_result') say('has a result');
    if (isThought(block) && !isFilledText(block['signature'] ?? block['data'])) say('has thinking without its signature');
    if (block['type'] !== 'tool_use') continue;
    const { id, name, input } = block;
    if (typeof id !== 'string' || !CALL_ID.test(id)) say('has a call whose id cannot be one');
    if (used.has(id)) say(`has a call with the id ${String(id)}, which is used before`);
    used.add(id);
    ids.push(id);
    if (typeof name !== 'string' || !TOOL_NAME.test(name)) say('has a call of a tool whose name cannot be one');
    if (!isObject(input)) say('has a call whose input is no object');
  }
  const { type, text } = blocks.at(-1) ?? {};
  if (isThought({ type })) say('ends with thinking');
  if (isLast && type === 'text' && typeof text === 'string' && text !== text.trimEnd()) say('ends with a blank, as the last answer');
  return ids;
}

function textFaults({ type, text }: Fields, say: (fault: string) => void): void {
  if (type === 'text' && (typeof text !== 'string' || isBlank(text))) say('has a text that is blank');
}

// ---- OpenAI's Responses -----------------------------------------------------------------------------------------------

function responsesFaults(items: readonly Fields[]): string[] {
  const faults: string[] = [];
  const used = new Set<unknown>();
  const open = new Set<unknown>();
  for (const [i, { type, call_id: id, ...item }] of items.entries()) {
    const say = (fault: string): void => void faults.push(`messages[${String(i)}]: ${fault}`);
    switch (type) {
      case 'function_call':
        if (typeof id !== 'string' || id === '') say('has a call without an id');
        if (used.has(id)) say(`has a call with the id ${String(id)}, which is used before`);
        used.add(id);
        open.add(id);
        functionFaults(item, say);
        break;
      case 'function_call_output':
        if (!open.delete(id)) say(`answers ${String(id)}, which no call before it is waiting with`);
        break;
      case 'reasoning':
        if (!isFilledText(item['encrypted_content'])) say('has reasoning that is not encrypted');
        if (!isOfAnswer(items[i + 1] ?? {})) say('has reasoning that nothing follows');
        break;
      default:
        if (!isFilledText(item['content']) && !isFilledList(item['content'])) say('has no content');
    }
  }
  for (const id of open) faults.push(`the end: comes before the result of ${String(id)}`);
  return faults;
}

function isOfAnswer({ type, role }: Fields): boolean {
  return role === 'assistant' || type === 'function_call' || type === 'reasoning';
}

// ---- all ------------------------------------------------------------------------------------------------------------------------

function isFilledText(content: unknown): boolean {
  return typeof content === 'string' && content !== '';
}

function isFilledList(content: unknown): boolean {
  return Array.isArray(content) && content.length > 0;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parsed(text: unknown): unknown {
  try {
    return JSON.parse(text as string);
  } catch {
    return undefined;
  }
}
