/** Runs in the browser: in the page that is served, and in the report. */
import type { FlowEvent } from '../../../operators/index.js';
import { defineInspector } from '../../inspector/define.js';
import type { SluiceInspector } from '../../inspector/inspector-types.js';
import type { RecordingPlayer } from '../../inspector/play-recording.js';
import { playRecording } from '../../inspector/play-recording.js';
import { importRecording, recorded } from '../../inspector/recording.js';

type Listener = (event: FlowEvent) => void;

function show(): void {
  defineInspector();
  const inspector = document.createElement('sluice-inspector') as SluiceInspector;
  const place = document.getElementById('inspector');
  place?.append(inspector);
  const told = document.getElementById('recording');
  if (told !== null) {
    play(inspector, told.textContent).seek(Infinity);
    return;
  }
  let leave = watch(inspector);
  let isPlaying = false;
  const button = document.getElementById('play');
  button?.addEventListener('click', () => {
    isPlaying = !isPlaying;
    button.textContent = isPlaying ? 'Back to now' : 'Play it from the start';
    leave();
    leave = isPlaying ? play(inspector, inspector.export()).leave : watch(inspector);
  });
}

function play(inspector: SluiceInspector, text: string): RecordingPlayer {
  const player = playRecording(inspector, importRecording(text));
  inspector.before(player.controls);
  return player;
}

/** Asks the server that the page came from. A new connection begins with all there was. */
function watch(inspector: SluiceInspector): () => void {
  const status = document.getElementById('status');
  const say = (text: string): void => {
    if (status !== null) status.textContent = text;
  };
  let listeners = new Set<Listener>();
  const events = new EventSource('/events');
  const on = (name: string, take: (data: string) => void): void => {
    events.addEventListener(name, ({ data }: MessageEvent<string>) => {
      take(data);
    });
  };
  on('recording', (text) => {
    const mine = new Set<Listener>();
    listeners = mine;
    inspector.source = [recorded(importRecording(text)), liveFrom(mine)];
  });
  on('events', (text) => {
    for (const event of JSON.parse(text) as FlowEvent[]) for (const listener of listeners) listener(event);
  });
  on('status', say);
  events.addEventListener('error', () => {
    say('`sluice inspect` does not answer; start it again, and this page goes on by itself');
  });
  return () => {
    events.close();
    say('playing what was told last');
  };
}

function liveFrom(listeners: Set<Listener>): { subscribe(observer: { next: Listener }): { unsubscribe(): void } } {
  return {
    subscribe: ({ next }) => {
      listeners.add(next);
      return { unsubscribe: () => void listeners.delete(next) };
    },
  };
}

show();
