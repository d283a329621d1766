import type { FlowEvent } from '../../../operators/index.js';
import { exportRecording } from '../../inspector/export-recording.js';
import { FlowModel } from '../../inspector/flow-model.js';
import { replay } from '../../inspector/recording.js';
import type { News } from './news.js';

/** What a page is told: the name of a server-sent event, and its data. */
export type Told = readonly ['recording' | 'events' | 'status', string];

type Page = (...told: Told) => void;

const FLUSH_MS = 100;
const MAX_PER_MESSAGE = 1000;

/** Keeps the model of a run, and tells pages of it: first what there was, then what comes. */
export class Feed {
  readonly #name: string;
  readonly #pages = new Set<Page>();
  #model = new FlowModel();
  #status = 'waiting for events';
  #faults = 0;
  #waiting: FlowEvent[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  get model(): FlowModel {
    return this.#model;
  }

  take(news: News): void {
    const before = this.#said();
    if (news.type === 'events') this.#add(news.events);
    else if (news.type === 'recording') this.#begin(replay(news.recording));
    else if (news.type === 'restarted') this.#begin(new FlowModel());
    else if (news.type === 'fault') this.#faults += 1;
    this.#status = STATUS[news.type] ?? this.#status;
    const said = this.#said();
    if (said !== before) this.#tell('status', said);
  }

  /** Returns how to leave. */
  join(page: Page): () => void {
    this.#flush();
    page('recording', exportRecording(this.#model, this.#name));
    page('status', this.#said());
    this.#pages.add(page);
    return () => this.#pages.delete(page);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #begin(model: FlowModel): void {
    this.#waiting = [];
    this.#model = model;
    if (this.#pages.size > 0) this.#tell('recording', exportRecording(model, this.#name));
  }

  #add(events: readonly FlowEvent[]): void {
    for (const event of events) this.#model.add(event);
    if (this.#pages.size === 0) return;
    this.#waiting.push(...events);
    if (this.#waiting.length >= MAX_PER_MESSAGE) this.#flush();
    else this.#timer ??= setTimeout(this.#flush, FLUSH_MS);
  }

  readonly #flush = (): void => {
    this.close();
    const events = this.#waiting;
    this.#waiting = [];
    if (events.length === 0) return;
    this.#tell('events', JSON.stringify(events));
  };

  #tell(...told: Told): void {
    for (const page of this.#pages) page(...told);
  }

  #said(): string {
    const faults = this.#faults === 0 ? '' : `; ${this.#faults} ${this.#faults === 1 ? 'line was no event' : 'lines were no events'}`;
    return `${this.#status}${faults}`;
  }
}

const STATUS: Readonly<Partial<Record<News['type'], string>>> = {
  caughtUp: 'following',
  restarted: 'following a new run',
  disconnected: 'the connection is lost; trying again',
  ended: 'the whole recording',
};
