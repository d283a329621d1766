/**
 * What media cost, where the request does not say how large they are: the most that a provider charges for one of a usual size, so that a
 * limit is kept; the usage of the answer puts it right. From the pages of the providers:
 *
 * - Image: OpenAI 85 and 170 for each of at most 8 tiles (1,445), 85 with `detail: 'low'`; Anthropic width × height / 750, scaled down to
 *   1.15 megapixels (1,600); Gemini 258 a tile. ("Images and vision", "Vision", "Understand and count tokens".)
 * - PDF: Anthropic ("PDF support") 1,500 to 3,000 a page for its text, and each page is an image, too; OpenAI takes both as well; Gemini 258.
 * - Audio: Gemini 32 a second, OpenAI 10. Video: Gemini 300 a second.
 */
const MEDIA = {
  image: { least: 1600, bytes: Infinity },
  /** One page is about 50 kB. */
  document: { least: 3000, bytes: 50_000 },
  /** A second: of PCM at 16 kHz, of what is compressed to 64 kbit/s. */
  wave: { least: 32, bytes: 32_000 },
  audio: { least: 32, bytes: 8000 },
  video: { least: 300, bytes: 125_000 },
} as const;

/** Of an image whose `detail` is low. */
const LOW_DETAIL = 85;
/** Minute of audio or video that is given by its address alone. */
const UNKNOWN_SECONDS = 60;

type Medium = keyof typeof MEDIA | 'text';

/** Under these keys are files and pictures, or what they are called by. */
const CARRIERS: Readonly<Partial<Record<string, Medium | 'any'>>> = {
  ...{ data: 'any', url: 'any', file: 'any', uri: 'any', file_id: 'any', fileId: 'any', bytes: 'any', result: 'any' },
  ...{ image_url: 'image', imageUrl: 'image', image: 'image', images: 'image' },
  ...{ file_data: 'document', fileData: 'any', file_url: 'document', file_uri: 'any', fileUri: 'any' },
  ...{ audio: 'audio', input_audio: 'audio', video: 'video', video_url: 'video', inlineData: 'any', inline_data: 'any' },
};
/** Signatures of what a model has thought: checked, not read. */
const UNREAD: ReadonlySet<string> = new Set(['signature', 'thoughtSignature', 'thought_signature', 'cache_control', 'filename']);

interface Part {
  readonly value: unknown;
  /** What a carrier above this says it is. */
  readonly medium: Medium | undefined;
  /** What is here is the medium itself. */
  readonly isCarried: boolean;
  readonly isLow: boolean;
}

/** Tokens of whatever a prompt is made of: texts in it as `estimate` counts them, media by their kind and size. However deep it is. */
export function contentTokens(content: unknown, estimate: (text: string) => number): number {
  let tokens = 0;
  const open: Part[] = [{ value: content, medium: undefined, isCarried: false, isLow: false }];
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    const { value, medium, isCarried } = part;
    if (typeof value === 'string') tokens += isCarried ? carriedTokens(value, part, estimate) : estimate(value);
    // Texts may be given as the tokens they are.
    else if (typeof value === 'number') tokens += 1;
    else if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) tokens += mediumTokens(medium, value.byteLength, part.isLow);
    else if (value instanceof URL) tokens += carriedTokens(value.href, part, estimate);
    else if (Array.isArray(value)) for (const inner of value as unknown[]) open.push({ ...part, value: inner });
    else for (const inner of partsOf(Object(value) as Named, part)) open.push(inner);
  }
  return tokens;
}

type Named = Readonly<Record<string, unknown>>;

function partsOf(value: Named, outer: Part): Part[] {
  const medium = mediumOf(value) ?? outer.medium;
  const isLow = outer.isLow || value['detail'] === 'low';
  return Object.entries(value).flatMap(([name, inner]): Part[] => {
    if (UNREAD.has(name)) return [];
    const carries = CARRIERS[name];
    // A field of that name in the arguments of a tool is text as any other.
    const isText = medium === undefined && (carries === 'any' || (typeof inner === 'string' && !isMedium(inner)));
    if (carries === undefined || isText) return [{ value: inner, medium, isCarried: false, isLow }];
    return [{ value: inner, medium: carries === 'any' ? medium : (medium ?? carries), isCarried: true, isLow }];
  });
}

/** What a part of a prompt is, by its media type or its `type`. */
function mediumOf(part: Named): Medium | undefined {
  const { type, source_type, format } = part;
  const media = [part['media_type'], part['mediaType'], part['mimeType'], part['mime_type']].find((name) => typeof name === 'string');
  if (type === 'text' || source_type === 'text') return 'text';
  return named(media) ?? (format === 'wav' || format === 'pcm16' ? 'wave' : named(type));
}

function named(name: unknown): Medium | undefined {
  if (typeof name !== 'string') return undefined;
  if (/^audio\/(?:x-)?(?:wave?|pcm|l16)/.test(name)) return 'wave';
  if (/^text\//.test(name)) return 'text';
  if (/^application\//.test(name)) return /json|xml|javascript|yaml/.test(name) ? 'text' : 'document';
  return (
    (['image', 'audio', 'video', 'document'] as const).find((medium) => name.includes(medium)) ??
    (/(?:^|_)file$/.test(name) ? 'document' : undefined)
  );
}

/** An address, a name, base64, or the text itself. */
function carriedTokens(value: string, { medium, isLow }: Part, estimate: (text: string) => number): number {
  const said = /^data:([^;,]*)(?:;[^,]*)?,/.exec(value.slice(0, 200));
  const what = (said?.[1] ? named(said[1]) : undefined) ?? medium;
  const length = value.length - (said?.[0].length ?? 0);
  const isAddress = !said && ADDRESS.test(value);
  const isEncoded = said !== null || isBase64(value);
  if (what !== 'text') return mediumTokens(what, isAddress || !isEncoded ? undefined : (length * 3) / 4, isLow);
  if (isAddress) return mediumTokens('document', undefined, isLow);
  // Three letters of English are a token at the least, encoded or not.
  return isEncoded && length > 256 ? Math.ceil(length / 4) : estimate(value);
}

const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//i;

function isMedium(value: string): boolean {
  return value.startsWith('data:') || ADDRESS.test(value) || isBase64(value);
}

/** By its first letters: of what is longer than any word. */
function isBase64(text: string): boolean {
  return text.length > 256 && /^[A-Za-z0-9+/_=\r\n-]+$/.test(text.slice(0, 512));
}

function mediumTokens(medium: Medium | undefined, bytes: number | undefined, isLow: boolean): number {
  if (medium === 'text') return Math.ceil((bytes ?? 0) / 3);
  if (medium === 'image' && isLow) return LOW_DETAIL;
  const { least, bytes: each } = MEDIA[medium ?? 'image'];
  const isTimed = medium === 'audio' || medium === 'wave' || medium === 'video';
  return least * (bytes === undefined ? (isTimed ? UNKNOWN_SECONDS : 1) : Math.max(1, Math.ceil(bytes / each)));
}

/** How many answers a request asks for: `n`, `best_of`, and Google's `candidateCount`. */
export function answersOf(...counts: readonly unknown[]): number {
  const asked = counts.filter((count): count is number => Number.isSafeInteger(count) && (count as number) > 0);
  return Math.min(MOST_ANSWERS, Math.max(1, ...asked));
}

/** No provider gives more; what asks for more is refused, and must not owe for it. */
const MOST_ANSWERS = 128;
