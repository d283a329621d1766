/**
 * What AG-UI hands to a middleware and takes from it, by shape: `@ag-ui/client` brings an RxJS of its own, whose types are not those of the one
 * beside it, and its versions name their types differently.
 */

/**
 * An event.
 * @beta
 */
export interface AguiEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/**
 * What a run is started with.
 * @beta
 */
export interface AguiInput {
  readonly threadId: string;
  readonly runId: string;
}

/**
 * An Observable of events, of any copy of RxJS.
 * @beta
 */
export interface AguiStream {
  subscribe(observer: { next(event: AguiEvent): void; error(error: unknown): void; complete(): void }): { unsubscribe(): void };
}

/** What a middleware is given as `next`. */
export interface AguiNext<I, O> {
  run(input: I): O;
}

/**
 * What `agent.use` takes; its answer is an Observable of the same RxJS as that of the agent, as far as types go.
 * @beta
 */
export type AguiMiddleware = <I extends AguiInput, O extends AguiStream>(input: I, next: AguiNext<I, O>) => O;

/** What an Observable emits. */
export type EventOf<O> = O extends { forEach(next: (event: infer E) => void): unknown } ? E : AguiEvent;

/** What `HttpAgent` sends a run with. */
export type AguiFetch = (url: string, init: RequestInit) => Promise<Response>;
