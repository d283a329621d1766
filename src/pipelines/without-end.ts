import type { FlowSink } from '../../operators/index.js';

/** For a limiter that is part of something: when that is over, it says so itself, once. */
export function withoutEnd(tell: FlowSink): FlowSink {
  return (event) => {
    if (event.type !== 'drained') tell(event);
  };
}
