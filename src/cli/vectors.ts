const BYTES = Float32Array.BYTES_PER_ELEMENT;

/** Little-endian 32-bit floats as base64, the same on every machine. */
export function encodeVector(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * BYTES);
  vector.forEach((value, i) => bytes.writeFloatLE(value, i * BYTES));
  return bytes.toString('base64');
}

/** Undefined when the text does not hold whole, finite floats. */
export function decodeVector(text: string): Float32Array | undefined {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length % BYTES !== 0) return undefined;
  const vector = new Float32Array(bytes.length / BYTES);
  for (let i = 0; i < vector.length; i += 1) vector[i] = bytes.readFloatLE(i * BYTES);
  return vector.every(Number.isFinite) ? vector : undefined;
}
