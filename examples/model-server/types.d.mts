/** What can go wrong on purpose. Every choice is drawn from `seed` and the number of the request, so a run can be repeated. */
export interface FaultOptions {
  /** Seed of the draws, a whole number. @defaultValue 1 */
  readonly seed?: number;
  /** Share of requests answered with 429, from 0 to 1. @defaultValue 0 */
  readonly rate429?: number;
  /** Share of requests answered with 500, 502 or 503, from 0 to 1. Together with `rate429` at most 1. @defaultValue 0 */
  readonly rate5xx?: number;
  /** The wait an injected 429 asks for, in milliseconds. @defaultValue 200 */
  readonly retryAfterMs?: number;
  /** Share of requests held back by `slowMs` before they are worked on, from 0 to 1. @defaultValue 0 */
  readonly slowRate?: number;
  /** How long a slow request is held back, in milliseconds. @defaultValue 1000 */
  readonly slowMs?: number;
  /** How many requests get their socket destroyed half-way through their texts. @defaultValue 0 */
  readonly cutSockets?: number;
  /** One request out of every `cutEvery`, drawn from the seed, is cut until `cutSockets` were. @defaultValue 10 */
  readonly cutEvery?: number;
  /** How many texts, counted from the first, take the worker that runs them down with them. @defaultValue 0 */
  readonly crashWorkers?: number;
  /** SHA-256 (hex) of the UTF-8 bytes of texts that are refused with 400. @defaultValue `[]` */
  readonly poisonSha256?: readonly string[];
  /** Whether the 400 for a poisoned text names its index. @defaultValue true */
  readonly blame?: boolean;
}

export interface ChatOptions {
  /** Answers made at the same time, in one batch of the model. Each takes about 50 MB. @defaultValue 2 */
  readonly sequences?: number;
  /** Threads of the model, all sequences together. More than one pays on an idle machine only. @defaultValue 1 */
  readonly maxThreads?: number;
  /** Most tokens in one answer, and how many a request may have that does not say. @defaultValue 512 */
  readonly maxCompletionTokens?: number;
  /** Most requests waiting for a sequence; one more is answered with 503. @defaultValue 100 */
  readonly maxQueuedChats?: number;
  /** What makes the answers; closed with the server. @defaultValue TinyLlama, as `./chat` installs it */
  readonly runtime?: ChatRuntime;
}

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

export interface ChatJob {
  /** At least 1. */
  readonly maxTokens: number;
  /** 0 takes the most likely token each time. */
  readonly temperature: number;
  readonly topP: number | undefined;
  readonly seed: number | undefined;
  /** Texts that end the answer and are not part of it. */
  readonly stop: readonly string[];
  /** Aborts when the client has left. */
  readonly signal: AbortSignal;
  /** Called with each piece of the answer, in order. */
  readonly onText: (text: string) => void;
}

export interface ChatAnswer {
  /** Tokens the model made, the one that ends the answer included. */
  readonly tokens: number;
  /** `'length'` when `maxTokens` ended the answer. */
  readonly finishReason: 'stop' | 'length';
}

/** What the chat route takes its answers from. */
export interface ChatRuntime {
  /** The model, as requests name it. */
  readonly model: string;
  /** Who made the model. */
  readonly owner: string;
  /** What runs it. */
  readonly name: string;
  /** Most tokens of prompt and answer together. */
  readonly contextTokens: number;
  /** The prompt as the model reads it, every token of it. */
  encode(messages: readonly ChatMessage[]): readonly number[];
  /** Makes one answer. Called for as many requests at a time as there are sequences; rejects when `signal` aborts. */
  generate(prompt: readonly number[], job: ChatJob): Promise<ChatAnswer>;
  close(): Promise<void>;
}

/** What the embeddings route takes its vectors from. */
export interface EmbeddingsEngine {
  /** What runs it. */
  readonly name: string;
  /** A text as the model reads it, every token of it. */
  encode(text: string): readonly number[];
  /** Starts one of the `workers`. */
  startThread(): InferenceThread;
}

/** Turns one text at a time into a vector, as a `Worker` does. */
export interface InferenceThread {
  /** One text; `crash`: the thread is to end instead. */
  postMessage(work: { readonly tokenIds: Int32Array; readonly crash: boolean }): void;
  /** First that it is ready, then a vector for each text. */
  on(event: 'message', listener: (message: { readonly ready: true } | { readonly vector: Float32Array }) => void): unknown;
  on(event: 'error', listener: (error: unknown) => void): unknown;
  on(event: 'exit', listener: (code: number) => void): unknown;
  terminate(): Promise<unknown>;
}

export interface ModelServerOptions {
  /** Port on 127.0.0.1; 0 takes a free one. @defaultValue 0 */
  readonly port?: number;
  /** When set, every request must carry it as `Authorization: Bearer …`. @defaultValue none, every key is accepted */
  readonly apiKey?: string;
  /** Worker threads, each with its own one-thread copy of the model (about 170 MB). @defaultValue 2 */
  readonly workers?: number;
  /** `'auto'` takes onnxruntime-node when it is installed, else the WebAssembly runtime. @defaultValue 'auto' */
  readonly runtime?: 'auto' | 'native' | 'wasm';
  /** @defaultValue Infinity, no limit */
  readonly requestsPerMinute?: number;
  /** @defaultValue Infinity, no limit */
  readonly tokensPerMinute?: number;
  /** How many seconds' worth of either rate may be spent at once. @defaultValue 2 */
  readonly burstSeconds?: number;
  /** Most tokens in one text, `[CLS]` and `[SEP]` included. @defaultValue 512, the model's own limit and the most that may be set */
  readonly maxTokensPerInput?: number;
  /** Most texts in one request. @defaultValue 2048 */
  readonly maxInputs?: number;
  /** Most tokens in one request. @defaultValue 300000 */
  readonly maxTokensPerRequest?: number;
  /** Most bytes in one request body. @defaultValue 4194304 (4 MiB) */
  readonly maxBodyBytes?: number;
  /** Most texts waiting for a worker, over all requests; a request that does not fit is answered with 503. @defaultValue 20000 */
  readonly maxQueuedTexts?: number;
  /** Folder with `onnx/model_quantized.onnx`, `tokenizer.json` and `tokenizer_config.json`. @defaultValue the installed package's */
  readonly modelDir?: string;
  /** Folder with the WebAssembly build of onnxruntime. @defaultValue the installed package's */
  readonly runtimeDir?: string;
  /** What makes the vectors. @defaultValue the real model */
  readonly engine?: EmbeddingsEngine;
  /** Whether a chat model answers too, and how; `true` takes the defaults. It has to be installed first. @defaultValue false */
  readonly chat?: boolean | ChatOptions;
  /** What goes wrong on purpose. @defaultValue nothing */
  readonly faults?: FaultOptions;
  /** Called once per request and per worker event; must not throw. Never sees texts or keys. @defaultValue none */
  readonly log?: (entry: LogEntry) => void;
}

export type Fault = 'rate429' | 'rate5xx' | 'slow' | 'cut' | 'poison' | 'crash';

export type LogEntry =
  | {
      readonly type: 'request';
      readonly requestId: string;
      readonly method: string;
      readonly path: string;
      /** The status sent; `undefined` when the socket went first. */
      readonly status: number | undefined;
      /** The `error.code` of a refusal. */
      readonly errorCode: string | undefined;
      readonly inputs: number;
      readonly tokens: number;
      readonly durationMs: number;
      readonly faults: readonly Fault[];
    }
  | { readonly type: 'nativeRuntimeUnavailable'; readonly reason: string }
  | { readonly type: 'workerCrashed'; readonly worker: number; readonly reason: string }
  | { readonly type: 'workerLost'; readonly worker: number; readonly reason: string }
  | { readonly type: 'internalError'; readonly requestId: string; readonly error: unknown };

export interface ModelServerStats {
  /** What runs the model: `onnxruntime-node`, `onnxruntime-web (wasm)`, or the name of an engine that was given. */
  readonly runtime: string;
  /** Requests to `/v1/embeddings` and `/v1/chat/completions`, whatever became of them. */
  readonly requests: number;
  /** Answers by status, over every route. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Texts the model has turned into vectors, and the tokens of those texts. */
  readonly embedded: { readonly texts: number; readonly tokens: number };
  /** Requests whose client left before the answer, and the queued texts dropped with them. */
  readonly aborted: { readonly requests: number; readonly texts: number };
  /** Texts waiting for a worker now. */
  readonly queued: number;
  /** Workers running a text now. */
  readonly busyWorkers: number;
  readonly workers: number;
  readonly workerRestarts: number;
  /** How often each fault was injected. */
  readonly faults: Readonly<Record<Fault, number>>;
  /** `undefined` when the server was started without chat. */
  readonly chat: ChatStats | undefined;
}

export interface ChatStats {
  readonly runtime: string;
  /** Answers that came to their end, and the tokens of those. */
  readonly answered: { readonly texts: number; readonly promptTokens: number; readonly completionTokens: number };
  /** Requests waiting for a sequence now. */
  readonly queued: number;
  /** Sequences making an answer now. */
  readonly busySequences: number;
  readonly sequences: number;
}

export interface ModelServer {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  /** `http://127.0.0.1:PORT/v1`, the `baseURL` of an OpenAI client. */
  readonly baseUrl: string;
  readonly port: number;
  /** Counters since the start. */
  stats(): ModelServerStats;
  /** Ends sockets and workers. Resolves when both are gone; may be called again. */
  close(): Promise<void>;
}

/** The options with every default filled in and every value checked. */
export type CheckedOptions = Required<Omit<ModelServerOptions, 'apiKey' | 'modelDir' | 'runtimeDir' | 'engine' | 'faults' | 'chat'>> & {
  readonly apiKey: string | undefined;
  readonly modelDir: string | undefined;
  readonly runtimeDir: string | undefined;
  readonly engine: EmbeddingsEngine | undefined;
  readonly faults: Required<FaultOptions>;
  readonly chat: CheckedChatOptions | undefined;
};

export type CheckedChatOptions = Required<Omit<ChatOptions, 'runtime'>> & { readonly runtime: ChatRuntime | undefined };
