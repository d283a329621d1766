/** Kinds of characters. Scripts follow `COMMON`, in the order of `SCRIPTS`. */
export const KIND = {
  nothing: 0,
  blank: 1,
  newline: 2,
  digit: 3,
  lower: 4,
  upper: 5,
  punctuation: 6,
  /** Part of a word of Latin letters: with accents as European languages have them, less usual ones, those of Vietnamese, combining marks. */
  accented: 7,
  unusual: 8,
  vietnamese: 9,
  combining: 10,
  /** What no row below names, by its length in UTF-8. */
  twoBytes: 11,
  threeBytes: 12,
  /** The most frequent ideographs, which are tokens of their own. */
  common: 13,
} as const;

/** Code units from and to (hexadecimal), then tokens of a unit and of a run: in cl100k_base, in o200k_base. A later row replaces an earlier one. */
type Row = readonly [units: string, cl100kUnit: number, cl100kRun: number, o200kUnit: number, o200kRun: number];

const OTHERS: readonly Row[] = [
  ['c0-17f', 1.58, 0, 0.96, 0], // accented
  ['180-2ff', 1.36, 0, 0.14, 0], // unusual
  ['1e00-1eff', 1.16, 0, 0.16, 0], // vietnamese
  ['300-36f', 1.9, 0, 1.83, 0], // combining
  ['', 2, 0.78, 2.03, 0.69], // twoBytes
  ['', 2.97, 0, 2.98, 0], // threeBytes
  ['', 0.8, 0, 0.64, 0], // common
];

const SCRIPTS: readonly Row[] = [
  ['80-bf', 0.85, 0.85, 0.75, 0.75], // signs of Latin-1
  ['370-3ff,1f00-1fff', 1.06, 0, 0.42, 0], // Greek
  ['400-52f', 2.7, 0, 0.1, 0.08], // Cyrillic
  ['410-44f', 0.41, 0.76, 0.17, 0.91], // Cyrillic, the letters of Russian
  ['530-58f', 2.04, 0.7, 0.12, 1.17], // Armenian
  ['590-5ff', 0.98, 1.07, 0.4, 0.28], // Hebrew
  ['600-6ff,750-77f', 1.47, 0.47, 0.1, 0.71], // Arabic script of Persian, Urdu and others
  ['621-64a', 0.83, 0, 0.37, 0], // Arabic
  ['900-97f', 1.1, 0.49, 0.38, 0], // Devanagari
  ['980-9ff', 1.36, 0.33, 0.3, 0.52], // Bengali
  ['a00-a7f', 1.98, 0.16, 0.62, 0], // Gurmukhi
  ['a80-aff', 1.99, 0.13, 0.36, 0.28], // Gujarati
  ['b80-bff', 1.46, 0.84, 0.33, 0.35], // Tamil
  ['c00-c7f', 2, 0.14, 0.51, 0], // Telugu
  ['c80-cff', 1.99, 0.17, 0.41, 0.22], // Kannada
  ['d00-d7f', 1.69, 0.92, 0.32, 0.4], // Malayalam
  ['d80-dff', 2.04, 0.67, 0.63, 0], // Sinhala
  ['e00-e7f', 0.99, 0, 0.43, 0], // Thai
  ['e80-eff', 2.18, 0, 1.86, 0.66], // Lao
  ['f00-fff', 2.09, 0.03, 1.49, 0.98], // Tibetan
  ['1000-109f', 2.07, 0.42, 0.56, 0], // Burmese
  ['10a0-10ff', 2.04, 0.69, 0.18, 0.98], // Georgian
  ['1100-11ff,ac00-d7af', 1.07, 0.67, 0.48, 0.82], // Hangul
  ['1200-139f', 2.97, 0.03, 1.98, 0.97], // Ethiopic
  ['1780-17ff', 1.68, 0, 0.62, 0.14], // Khmer
  ['2000-206f', 0.1, 1.56, 0.1, 0.69], // typographic signs
  ['2070-2fff', 1.77, 0, 1.7, 0], // arrows, boxes, symbols
  ['3000-303f', 0.1, 1.08, 0.75, 0.33], // punctuation of Chinese and Japanese
  ['3040-30ff', 0.86, 0.26, 0.45, 0.65], // kana
  ['3400-9fff,f900-faff', 2.13, 0, 1.16, 0], // ideographs
  ['ff00-ffef', 0.3, 0.3, 0.13, 0.13], // full-width forms
  ['d800-dfff', 1.19, 0, 0.72, 0.29], // halves of emoji
];

const COMMON =
  '一三上下不与业个中为主义之了事二于些产享人他付代以们件任会位体何作使保信值像元入全公共关其具内写出分列初利别到制前力加务动動包化区十单原参及友反发取可右号合同向告员和器四国图土在地基大失头女好子字存学完定实家容对小展工左已布平并序应度开式引当形待得心必思性' +
  '情意成或所找投拉按换接改放政效数整文新方族无时是更最有期未本权条来果查标样格正此步段每民水治法活点無片物现理生用由男画界的目直相示社票种科移空立章符第等管类系索线组经编置者而联能自至色行表要見视解言記认论证该起身辑过这进选通連部都重開間间限除集需非面音项高';

/**
 * How little a vocabulary made of English, code and the larger European languages knows a pair of letters: 0 usual, 2 rare. A row per first
 * letter. It tells Finnish or Swahili from English, and base64 from words, though all are made of the same letters.
 */
const PAIRS = /* @__PURE__ */ (() =>
  [
    '20002201122010112010112112',
    '11110112211011111101111111',
    '01110110010011011000111110',
    '11120112111111011111211111',
    '11001012222201120001111012',
    '11111111011111011111111111',
    '21110110111111121111212121',
    '11110111011111111110221121',
    '10001002222200001210211221',
    '11111111211112111111211111',
    '21111111211101211211211111',
    '21110110112011211111112101',
    '10110112111111001111111111',
    '11001101211001111100211112',
    '21011011121210011001010111',
    '11110112111011001011011111',
    '21111111211111211111011111',
    '12010112111110011111112111',
    '21110112212121011101011111',
    '21110110011111011011111102',
    '01020111111111212021212112',
    '11110111211112111111111111',
    '11112110011211111111111121',
    '21112111111111101111112111',
    '11121221111112111111111111',
    '21111111212111211111111111',
  ].join(''))();

/** What the parts of a text cost in one encoding, in tokens. */
export interface TokenWeights {
  /** A word behind a blank, and one that joins what is before it; and what pairs of letters in it add, by how rare they are. */
  readonly word: number;
  readonly joinedWord: number;
  readonly pairs: readonly [number, number, number];
  /** A letter of a word beyond the 16th. */
  readonly longWord: number;
  /** Several capitals, and what pairs of them add. */
  readonly capitals: number;
  readonly capitalPairs: readonly [number, number, number];
  /** Three digits; the blank in front of them. */
  readonly digits: number;
  readonly blankBeforeDigit: number;
  /** Several blanks, the same at the start of a line, each blank after the first. */
  readonly blanks: number;
  readonly indent: number;
  readonly moreBlanks: number;
  /** Line ends, and each after the first; behind punctuation they are part of its token. */
  readonly newline: number;
  readonly moreNewlines: number;
  /** A sign, one that joins the word behind it, several; each up to the eighth, each after that. */
  readonly mark: number;
  readonly joinedMark: number;
  readonly marks: number;
  readonly moreMarks: number;
  readonly manyMarks: number;
  /** By kind: a code unit, a run. */
  readonly unit: readonly number[];
  readonly run: readonly number[];
}

const NONE: readonly number[] = /* @__PURE__ */ new Array<number>(KIND.accented).fill(0);

/** One column of the rows, by kind. */
function column(at: 1 | 2 | 3 | 4): readonly number[] {
  return [...NONE, ...[...OTHERS, ...SCRIPTS].map((row) => row[at])];
}

/**
 * Fitted by least squares of the relative error (numbers >= 0, rounded) to 9,500 pieces of 240 characters: the Universal Declaration of Human
 * Rights in 470 languages, translations of CKEditor and Docusaurus, sources, declarations, JSON, READMEs, random digits, letters and base64.
 */
export const TOKEN_WEIGHTS: Readonly<Record<'cl100k_base' | 'o200k_base', TokenWeights>> = /* @__PURE__ */ (() => ({
  cl100k_base: {
    ...{ word: 0.62, joinedWord: 0.75, pairs: [0, 0.29, 0.92], longWord: 0.22, capitals: 0.77, capitalPairs: [0, 0.57, 1.28] },
    ...{ digits: 1.11, blankBeforeDigit: 0.85, blanks: 1.25, indent: 0.78, moreBlanks: 0.02, newline: 0.9, moreNewlines: 0.03 },
    ...{ mark: 0.63, joinedMark: 0.05, marks: 0.85, moreMarks: 0.1, manyMarks: 0.02 },
    ...{ unit: column(1), run: column(2) },
  } as const,
  o200k_base: {
    ...{ word: 0.66, joinedWord: 0.87, pairs: [0, 0.22, 0.61], longWord: 0.3, capitals: 0.77, capitalPairs: [0, 0.56, 1.19] },
    ...{ digits: 1.05, blankBeforeDigit: 0.93, blanks: 1.23, indent: 0.94, moreBlanks: 0.02, newline: 1.33, moreNewlines: 0.06 },
    ...{ mark: 0.73, joinedMark: 0.11, marks: 0.92, moreMarks: 0.13, manyMarks: 0.02 },
    ...{ unit: column(3), run: column(4) },
  } as const,
}))();

/** How rare a pair of letters is; 0 where one of them is not a to z. */
export function rarity(first: number, second: number): 0 | 1 | 2 {
  const a = (first | 32) - 97;
  const b = (second | 32) - 97;
  // Letters with accents among them.
  if (a < 0 || a > 25 || b < 0 || b > 25) return 0;
  return (PAIRS.charCodeAt(26 * a + b) - 48) as 0 | 1 | 2;
}

let kinds: Uint8Array | undefined;

/** The kind of each code unit. Made when it is first needed: an import of the package costs nothing. */
export function kindTable(): Uint8Array {
  if (kinds) return kinds;
  kinds = new Uint8Array(0x10000).fill(KIND.twoBytes, 0x80, 0x800).fill(KIND.threeBytes, 0x800);
  for (let code = 0; code < 0x80; code++) kinds[code] = asciiKind(String.fromCharCode(code));
  for (const [at, [units]] of [...OTHERS, ...SCRIPTS].entries()) {
    for (const range of units === '' ? [] : units.split(',')) {
      const [from = 0, to = 0] = range.split('-').map((unit) => Number.parseInt(unit, 16));
      kinds.fill(KIND.accented + at, from, to + 1);
    }
  }
  for (let at = 0; at < COMMON.length; at++) kinds[COMMON.charCodeAt(at)] = KIND.common;
  return kinds;
}

function asciiKind(char: string): number {
  if (char === '\n' || char === '\r') return KIND.newline;
  if (char === ' ' || char === '\t') return KIND.blank;
  if (char >= '0' && char <= '9') return KIND.digit;
  if (char >= 'a' && char <= 'z') return KIND.lower;
  return char >= 'A' && char <= 'Z' ? KIND.upper : KIND.punctuation;
}
