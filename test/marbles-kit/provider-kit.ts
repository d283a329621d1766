import { fakeProvider } from '../../marbles/fake-provider.js';
import type { ProviderBody, ProviderOptions, ProviderReply, ProviderRequest, ProviderSimulation } from '../../marbles/providers/types.js';
import type { VirtualClock } from '../../marbles/virtual.js';
import { virtualTime } from '../../marbles/virtual.js';

/** A provider in virtual time, and how to ask it. */
export interface Asking {
  readonly provider: ProviderSimulation;
  readonly clock: VirtualClock;
  /** Sends a request now and lets time pass until its response is whole. */
  readonly ask: (request?: Partial<ProviderRequest> & { readonly body?: ProviderBody }) => ProviderReply;
}

/** Runs a test with a provider in virtual time. `main` completes every request. */
export function asking<R>(options: ProviderOptions, main: ProviderRequest, test: (asking: Asking) => R): R {
  return virtualTime((clock) => {
    const provider = fakeProvider(options);
    const ask: Asking['ask'] = (request) => {
      let reply: ProviderReply | undefined;
      provider.send({ ...main, ...request }).subscribe((whole) => (reply = whole));
      clock.advance(0);
      if (reply === undefined) throw new Error('no response at once');
      return reply;
    };
    return test({ provider, clock, ask });
  });
}

/** A text of so many tokens. */
export const words = (tokens: number): string => 'word'.repeat(tokens);

export function errorIn({ body }: ProviderReply): Record<string, unknown> {
  return (body as { error: Record<string, unknown> }).error;
}

/** The data of the events of a stream. */
export function eventsIn({ body }: ProviderReply): Record<string, unknown>[] {
  return (body as string)
    .split(/\r?\n\r?\n/)
    .map((event) => /^data: (.*)$/m.exec(event)?.[1])
    .filter((data) => data !== undefined && data !== '[DONE]')
    .map((data) => JSON.parse(data as string) as Record<string, unknown>);
}
