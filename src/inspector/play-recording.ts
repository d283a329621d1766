import { make, time, write } from './dom.js';
import type { Recording } from './export-recording.js';
import type { SluiceInspector } from './inspector-types.js';
import type { Feeding } from './source.js';
import { Timeline } from './timeline.js';

/**
 * Plays a recording in an inspector.
 * @beta
 */
export interface RecordingPlayer {
  /** A button for a step and a slider, to be put on the page. They have no style of their own. */
  readonly controls: HTMLElement;
  readonly lengthMs: number;
  /** How far it is, in ms since its beginning. */
  readonly positionMs: number;
  /** How much faster than it was. @defaultValue 1 */
  speed: number;
  /** Pauses the inspector, and shows the next moment. False at the end. */
  readonly step: () => boolean;
  /** To a time since its beginning, in ms; Infinity is the end. */
  readonly seek: (ms: number) => void;
  /** Leaves the inspector without a source. */
  readonly leave: () => void;
}

/**
 * Plays a recording in an inspector, from its beginning: it becomes its `source`, and its time the `clock`. `pause()` and `resume()` of the inspector, and its
 * button, stop it and let it go on. For all of a recording at once there is {@link recorded}.
 *
 * @beta
 * @example
 * ```ts no-run
 * const player = playRecording(inspector, importRecording(text));
 * inspector.after(player.controls);
 * player.speed = 10;
 * ```
 */
export function playRecording(inspector: SluiceInspector, recording: Recording): RecordingPlayer {
  const timeline = new Timeline(recording);
  const { lengthMs } = timeline;
  const step = make('button', { type: 'button' }, 'Step');
  const range = make('input', { type: 'range', min: 0, max: Math.ceil(lengthMs), 'aria-label': 'position in the recording, in ms' });
  const text = make('span');
  let changed: (isAsked?: boolean) => void = () => undefined;
  let isShown = false;
  let frame = 0;
  let lastAt: number | undefined;

  const source: Feeding = (model, onChange) => {
    changed = onChange;
    isShown = true;
    timeline.playInto(model);
    show();
    return () => {
      isShown = false;
      cancelAnimationFrame(frame);
      frame = 0;
    };
  };
  const player: RecordingPlayer = {
    controls: make('div', { class: 'recording' }, step, range, text),
    lengthMs,
    get positionMs() {
      return timeline.positionMs;
    },
    speed: 1,
    step: () => {
      inspector.pause();
      const hasMore = timeline.step();
      show();
      return hasMore;
    },
    seek: (ms) => {
      if (!timeline.seek(ms) && isShown) inspector.source = source;
      else show();
    },
    leave: () => {
      inspector.removeEventListener('resume', show);
      inspector.source = undefined;
      inspector.clock = undefined;
      player.controls.remove();
    },
  };
  step.onclick = player.step;
  range.oninput = () => {
    inspector.pause();
    player.seek(range.valueAsNumber);
  };
  inspector.addEventListener('resume', show);
  inspector.clock = () => timeline.startsAt + timeline.positionMs;
  inspector.source = source;
  show();
  return player;

  /** And goes on, while there is something to play, and somebody to see it. */
  function show(): void {
    range.value = String(timeline.positionMs);
    write(text, `${time(timeline.positionMs)} of ${time(lengthMs)}`);
    changed(inspector.paused);
    if (frame !== 0 || !isShown || inspector.paused || timeline.isOver) return;
    lastAt = undefined;
    frame = requestAnimationFrame(play);
  }

  function play(now: number): void {
    frame = 0;
    if (inspector.paused) return;
    const ms = (now - (lastAt ?? now)) * player.speed;
    if (ms > 0) timeline.seek(timeline.positionMs + ms);
    show();
    lastAt = now;
  }
}
