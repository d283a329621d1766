import type { FlowModel } from './flow-model.js';
import type { FlowBatch, FlowItem, FlowLane } from './flow-parts.js';

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

/** Where things are, as the page has laid them out; lanes and outcomes in rows. */
export interface Places {
  readonly width: number;
  readonly height: number;
  readonly lanes: readonly Box[];
  readonly batches: Box;
  readonly calls: Box;
  readonly done: readonly Box[];
}

export interface Colours {
  readonly lanes: readonly string[];
  readonly ok: string;
  readonly bad: string;
  readonly gone: string;
  readonly line: string;
}

/** One item on its way. */
interface Mark {
  x: number;
  y: number;
  toX: number;
  toY: number;
  colour: string;
  /** When it disappears, on the wall clock. */
  dieAt: number;
  seen: number;
}

/** The box around the items of a call. */
interface Frame {
  x: number;
  y: number;
  seen: number;
  readonly bornAt: number;
}

/** From a mark to the next. */
const STEP = 11;
/** From a batch to the one below. */
const LINE = 42;
const RADIUS = 4;
const MOST_MARKS = 700;
const PER_BATCH = 24;
const PER_LANE = 80;
/** How long a batch is seen in its stage before it takes its slot. */
const FORMING_MS = 220;
const FADE_MS = 1300;
/** In which a mark has gone two thirds of its way. */
const TRAVEL_MS = 90;

/** How a frame is drawn. */
interface How {
  /** On the wall clock. */
  readonly now: number;
  readonly dt: number;
  /** The time of the source. */
  readonly clock: number;
  /** Nothing travels. */
  readonly isStill: boolean;
  readonly slots: number;
}

/** Draws one frame; answers whether something moves on by itself. */
type Picture = (model: FlowModel, places: Places, colours: Colours, how: How) => boolean;

/** Draws the marks. Everything it shows is in the tables as well. */
export function createPicture(canvas: CanvasRenderingContext2D): Picture {
  const marks = new Map<number, Mark>();
  const frames = new Map<number, Frame>();
  let shown: FlowModel | undefined;
  let lastFinished = 0;
  let frameNow = 0;
  let meanMs = 0;
  let moves = false;

  return (model, { width, height, lanes, batches, calls, done }, colours, { now, dt, clock, isStill, slots }) => {
    if (shown !== model) {
      shown = model;
      marks.clear();
      frames.clear();
      lastFinished = model.finishedCount;
      meanMs = 0;
    }
    frameNow++;
    moves = false;
    const numbers = new Map(model.laneParts.map((lane, i) => [lane, i]));
    canvas.clearRect(0, 0, width, height);
    drawLanes();
    drawCalls();
    drawReturned();
    finish();
    paint();
    return moves;

    function colourOf(lane: FlowLane): string {
      return colours.lanes[(numbers.get(lane) ?? 0) % colours.lanes.length] as string;
    }

    /** The first of each lane stand at the right, in front of the batches. */
    function drawLanes(): void {
      model.laneParts.forEach((lane, i) => {
        const box = lanes[Math.min(i, lanes.length - 1)];
        if (!box) return;
        const rows = Math.max(1, Math.floor((box.h - 22) / STEP));
        const most = Math.min(PER_LANE, rows * Math.max(1, Math.floor(box.w / STEP) - 1));
        let n = 0;
        for (const item of lane.waiting) {
          if (n >= most) break;
          put(item, box.x + box.w - STEP * (Math.floor(n / rows) + 0.7), box.y + 24 + STEP * (n % rows), box.x);
          n++;
        }
      });
    }

    function drawCalls(): void {
      const count = Math.max(1, Math.min(64, Math.max(slots, model.slots.length)));
      const columns = Math.max(1, Math.min(count, Math.ceil(Math.sqrt((count * calls.w) / Math.max(calls.h, 1)) * 0.75)));
      const w = calls.w / columns - 6;
      const h = Math.min(110, (calls.h - 6) / Math.ceil(count / columns) - 6);
      const lines = linesOf(batches);
      for (let i = 0; i < count; i++) {
        const x = calls.x + (i % columns) * (w + 6);
        const y = calls.y + 6 + Math.floor(i / columns) * (h + 6);
        outline(x, y, w, h, colours.line, 1);
        const batch = model.slots[i];
        if (!batch) continue;
        const frame = frameOf(batch, batches.x + 4, batches.y + 8 + LINE * (lines - 1 - (i % lines)));
        const isForming = !isStill && now - frame.bornAt < FORMING_MS;
        if (isForming) moves = true;
        else Object.assign(frame, { x, y });
        const size = isForming ? Math.min(w, batches.w - 8) : w;
        const colour = drawBatch(batch, frame, size, isForming ? Math.min(34, h) : h);
        if (isForming) continue;
        // How far it is, if it takes as long as others did.
        const share = meanMs === 0 ? 0.5 : Math.min(1, Math.max(0, clock - batch.startedAt) / meanMs);
        canvas.fillStyle = colour;
        canvas.globalAlpha = 0.35;
        canvas.fillRect(x + 4, y + h - 4, Math.max(0, (w - 8) * share), 2);
        canvas.globalAlpha = 1;
      }
      for (const [key, { seen }] of frames) if (seen !== frameNow) frames.delete(key);
      const { latencyMs = 0 } = model.ended.at(-1) ?? {};
      if (latencyMs > 0) meanMs = meanMs === 0 ? latencyMs : 0.9 * meanMs + 0.1 * latencyMs;
    }

    /** What has failed and is to be sent again comes back, with a crack between its parts. */
    function drawReturned(): void {
      const w = batches.w - 8;
      [...model.returned].slice(-linesOf(batches)).forEach((batch, i) => {
        const frame = Object.assign(frameOf(batch, 0, 0), { x: batches.x + 4, y: batches.y + 8 + i * LINE });
        drawBatch(batch, frame, w, 34);
        canvas.strokeStyle = colours.bad;
        canvas.beginPath();
        const parts = Math.min(batch.parts, PER_BATCH);
        for (let part = 1; part < parts; part++) {
          const x = frame.x + (w * part) / parts;
          canvas.moveTo(x - 2, frame.y - 2);
          canvas.lineTo(x + 3, frame.y + 17);
          canvas.lineTo(x - 2, frame.y + 36);
        }
        canvas.stroke();
      });
    }

    /** Answers with its colour. */
    function drawBatch(batch: FlowBatch, { x, y }: Frame, w: number, h: number): string {
      const colour = colourOf(batch.lane);
      outline(x, y, w, h, colour, 1.5);
      const columns = Math.max(1, Math.floor((w - 6) / STEP));
      const most = Math.min(PER_BATCH, columns * Math.max(1, Math.floor((h - 6) / STEP)));
      let n = 0;
      for (const item of batch.items) {
        if (item.batch !== batch || !item.isOpen) continue;
        if (n >= most) break;
        put(item, x + 4 + STEP * ((n % columns) + 0.5), y + 4 + STEP * (Math.floor(n / columns) + 0.5), x);
        n++;
      }
      return colour;
    }

    function finish(): void {
      const fresh = Math.min(model.finishedCount - lastFinished, model.finished.length);
      lastFinished = model.finishedCount;
      for (const item of fresh > 0 ? model.finished.slice(-fresh) : []) {
        const mark = marks.get(item.key);
        if (!mark) continue;
        mark.dieAt = now + (isStill ? 500 : FADE_MS);
        const row = item.state === 'fulfilled' ? 0 : item.state === 'rejected' ? 1 : 2;
        const box = done[row] as Box;
        mark.colour = [colours.ok, colours.bad, colours.gone][row] as string;
        // Whoever was given up fades where it is.
        if (row === 2 && item.state !== 'lost') continue;
        mark.toX = box.x + 6 + ((item.key * 53) % Math.max(1, box.w - 12));
        mark.toY = box.y + 26 + ((item.key * 29) % Math.max(1, box.h - 32));
      }
    }

    /** Says where an item belongs; it travels there. */
    function put({ key, lane }: FlowItem, toX: number, toY: number, fromX: number): void {
      let mark = marks.get(key);
      if (!mark) {
        if (marks.size >= MOST_MARKS) return;
        mark = { x: isStill ? toX : fromX, y: toY, toX, toY, colour: '', dieAt: Infinity, seen: 0 };
        marks.set(key, mark);
      }
      mark.toX = toX;
      mark.toY = toY;
      mark.colour = colourOf(lane);
      mark.seen = frameNow;
    }

    function frameOf({ key }: FlowBatch, x: number, y: number): Frame {
      const frame = Object.assign(frames.get(key) ?? { x, y, bornAt: now }, { seen: frameNow });
      frames.set(key, frame);
      return frame;
    }

    function travel(mark: Mark): void {
      const { x, y, toX, toY } = mark;
      const share = isStill ? 1 : 1 - Math.exp(-dt / TRAVEL_MS);
      mark.x += (toX - x) * share;
      mark.y += (toY - y) * share;
      if (Math.abs(toX - mark.x) + Math.abs(toY - mark.y) > 0.5) moves = true;
      else Object.assign(mark, { x: toX, y: toY });
    }

    function paint(): void {
      const paths = new Map<string, Path2D>();
      for (const [key, mark] of marks) {
        const isDying = mark.dieAt < Infinity;
        const left = mark.dieAt - now;
        // Those that stand too far behind to be seen.
        if (left <= 0 || (!isDying && mark.seen !== frameNow)) {
          marks.delete(key);
          continue;
        }
        travel(mark);
        if (isDying) moves = true;
        // In four steps: what looks alike is painted at once.
        const name = `${String(Math.min(4, Math.ceil((8 * left) / FADE_MS)))}${mark.colour}`;
        const alike = paths.get(name) ?? new Path2D();
        paths.set(name, alike);
        alike.moveTo(mark.x + RADIUS, mark.y);
        alike.arc(mark.x, mark.y, RADIUS, 0, 7);
      }
      for (const [name, path] of paths) {
        canvas.globalAlpha = Number(name[0]) / 4;
        canvas.fillStyle = name.slice(1);
        canvas.fill(path);
      }
      canvas.globalAlpha = 1;
    }

    function outline(x: number, y: number, w: number, h: number, colour: string, lineWidth: number): void {
      canvas.strokeStyle = colour;
      canvas.lineWidth = lineWidth;
      canvas.beginPath();
      canvas.roundRect(x, y, Math.max(0, w), Math.max(0, h), 7);
      canvas.stroke();
    }
  };
}

/** How many batches stand below each other. */
function linesOf({ h }: Box): number {
  return Math.max(1, Math.floor(h / LINE));
}
