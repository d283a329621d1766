import type { OperatorFunction } from 'rxjs';
import { Observable } from 'rxjs';
import { connect } from '../../operators/build.js';
import type { ToolCall } from '../pipelines/tools/tool-types.js';
import type { ModelPart } from './model-part.js';
import { ModelReader } from './model-reader.js';
import { noId } from './open-calls.js';

const NAME = 'assembleToolCalls';

/**
 * Makes tool calls of the events of a model: their arguments come in pieces, of several calls by turns. Takes the chunks of chat completions and
 * the events of the Responses API, of Anthropic's messages and of AG-UI; which one it is, each event says itself. The calls are those that
 * `createToolRunner` takes.
 *
 * - **Emits when** a call is whole: at the `finish_reason` of a chat completion, with `response.output_item.done`, `content_block_stop` or
 *   `TOOL_CALL_END`; a `TOOL_CALL_CHUNK` is the last of its call when something else follows and its JSON is closed. Calls that the provider
 *   runs itself are left out. Of several choices the first counts.
 * - **Input** is the parsed JSON, `{}` for no arguments; arguments that the server has parsed itself are taken as they are. What the model ended, and is
 *   no JSON all the same, stays a text, which the schema of the tool refuses.
 * - **Ids** are the server's. A call without one gets `no_id_1`, `no_id_2` and so on, counted in each stream.
 * - **Holds at most** 1,000,000 characters of the arguments of calls that are open.
 * - **Drops** everything that is no part of a tool call.
 * - **Completes when** the source completes.
 * - **Errors when** the source errors, with the same error; when an event says that the model has failed (`ProviderError`); when the arguments get
 *   too long (`ItemTooHeavyError`); and when the source completes within calls, or the answer was cut off there (by its longest length, for
 *   example): `UnfinishedToolCallError` with their `ids`, after all calls that are whole.
 * - **On unsubscribe** what was collected is dropped.
 *
 * @beta
 * @example
 * ```ts
 * import { from, lastValueFrom, toArray } from 'rxjs';
 * import { assembleToolCalls } from 'sluice';
 *
 * const piece = (index: number, call: object) => ({ choices: [{ index: 0, delta: { tool_calls: [{ index, ...call }] } }] });
 * const chunks = [
 *   piece(0, { id: 'call_1', function: { name: 'read', arguments: '' } }),
 *   piece(1, { id: 'call_2', function: { name: 'now', arguments: '{}' } }),
 *   piece(0, { function: { arguments: '{"path":' } }),
 *   piece(0, { function: { arguments: '"a.md"}' } }),
 *   { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
 * ];
 * const calls = await lastValueFrom(from(chunks).pipe(assembleToolCalls(), toArray()));
 * calls; // => [{ id: 'call_1', name: 'read', input: { path: 'a.md' } }, { id: 'call_2', name: 'now', input: {} }]
 * ```
 * @see {@link toToolResults} for the way back.
 */
export function assembleToolCalls(): OperatorFunction<unknown, ToolCall> {
  return (source) =>
    new Observable((subscriber) => {
      const reader = new ModelReader(NAME, false);
      let unnamed = 0;
      const tell = (parts: readonly ModelPart[]): void => {
        for (const part of parts) {
          if (part.type === 'toolCall') subscriber.next({ ...part.call, id: part.call.id || noId(++unnamed) });
        }
      };
      connect(source, subscriber, {
        next: (event) => {
          tell(reader.push(event));
        },
        complete: () => {
          tell(reader.end());
          const unfinished = reader.unfinished(unnamed);
          if (unfinished === undefined) subscriber.complete();
          else subscriber.error(unfinished);
        },
      });
    });
}
