import type { TurnCallView, TurnEvent, TurnMessage, TurnView } from './turn-types.js';

const NOTHING = { text: '', reasoning: '', calls: [] as readonly TurnCallView[] } as const;

/**
 * The view of a conversation in which nothing happens, with what was said in it: what {@link reduceView} begins with.
 */
export function emptyView(messages: readonly TurnMessage[]): TurnView {
  return { status: 'idle', messages, before: messages.length, ...NOTHING };
}

/**
 * The view of a conversation after an event.
 */
export function reduceView(view: TurnView, event: TurnEvent): TurnView {
  switch (event.type) {
    case 'started': {
      const { error: _, ...rest } = view;
      const { closed = [] } = event;
      const messages = [...view.messages, ...closed, ...(event.message ? [event.message] : [])];
      return { ...rest, ...NOTHING, messages, before: view.messages.length + closed.length, turnId: event.turnId, status: 'running' };
    }
    case 'delta':
      return event.kind === 'text' ? { ...view, text: view.text + event.text } : { ...view, reasoning: view.reasoning + event.text };
    case 'toolCall':
      return { ...view, calls: [...view.calls, { call: event.call, state: 'running' }] };
    case 'pending':
      return waiting(withCall(view, event.call.id, { state: 'pending' }));
    case 'answered':
      return waiting(withCall(view, event.call.id, { state: 'running' }));
    case 'toolResult':
      return waiting(withCall(view, event.result.tool_use_id, { state: 'done', result: event.result }));
    case 'step':
      return { ...view, ...NOTHING, messages: [...view.messages, ...event.messages], status: 'running' };
    case 'finished':
      return { ...view, ...NOTHING, status: 'finished' };
    case 'cancelled':
    case 'failed': {
      const ended = { status: event.type, ...(event.type === 'failed' && { error: event.error }) };
      // One that never began takes nothing from the one that runs.
      if (event.turnId !== view.turnId) return isRunning(view) ? view : { ...view, ...ended };
      return { ...view, ...NOTHING, messages: [...view.messages.slice(0, view.before), ...event.kept], ...ended };
    }
  }
}

function isRunning({ status }: TurnView): boolean {
  return status === 'running' || status === 'waiting';
}

function waiting(view: TurnView): TurnView {
  return { ...view, status: view.calls.some(({ state }) => state === 'pending') ? 'waiting' : 'running' };
}

function withCall(view: TurnView, id: string, change: Partial<TurnCallView>): TurnView {
  return { ...view, calls: view.calls.map((shown) => (shown.call.id === id ? { ...shown, ...change } : shown)) };
}
