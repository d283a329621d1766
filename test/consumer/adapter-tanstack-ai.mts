import { type DeltaOptions, flowStream, type StreamConnection, type StreamFactory } from 'sluice/tanstack-ai';

interface Event {
  readonly type: string;
}

const pace: DeltaOptions = { pace: 'frame', maxWaitMs: 100 };
const factory: StreamFactory<[messages: string[]], Event> = async function* (messages) {
  for (const type of messages) yield { type };
};
export const drawn: (messages: string[]) => AsyncIterable<Event> = flowStream(factory, pace);
const connection: StreamConnection<[messages: string[]], Event> & { readonly url: string } = { connect: factory, url: '/api' };
export const { url }: typeof connection = flowStream(connection);
