import type { ModelServer, ModelServerOptions } from './types.d.mts';

export type {
  ChatAnswer,
  ChatJob,
  ChatMessage,
  ChatOptions,
  ChatRuntime,
  ChatStats,
  EmbeddingsEngine,
  Fault,
  FaultOptions,
  InferenceThread,
  LogEntry,
  ModelServer,
  ModelServerOptions,
  ModelServerStats,
} from './types.d.mts';

/**
 * Starts an OpenAI-compatible embeddings server on 127.0.0.1, answered by the real all-MiniLM-L6-v2 model.
 * Resolves when the model is loaded in every worker and the port is open. With `chat`, TinyLlama answers chat completions too.
 *
 * @throws TypeError when an option is out of range, naming the option, what was expected and what came.
 * @throws ModelFilesError when the model package (with `chat`, that of the chat model) is missing or one of its files is not the pinned one.
 * @example
 * ```ts
 * const server = await startModelServer();
 * const client = new OpenAI({ baseURL: server.baseUrl, apiKey: 'any' });
 * const { data } = await client.embeddings.create({ model: 'all-MiniLM-L6-v2', input: ['a cat', 'a kitten'] });
 * data[0].embedding.length; // => 384
 * await server.close();
 * ```
 */
export declare function startModelServer(options?: ModelServerOptions): Promise<ModelServer>;
