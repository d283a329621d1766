import { Observable } from 'rxjs';
import { toStore } from '../../../operators/index.js';
import type { LogLine } from '../server.js';

export interface Log {
  readonly model: string;
  readonly lines: readonly LogLine[];
}

/** What the server writes down, as it writes it. */
const lines = new Observable<Log>((subscriber) => {
  const source = new EventSource('/log');
  source.onmessage = ({ data }: MessageEvent<string>) => {
    subscriber.next(JSON.parse(data) as Log);
  };
  return () => {
    source.close();
  };
});

export const log = toStore(lines, { model: '', lines: [] } satisfies Log as Log, { keepAliveMs: 100 });
