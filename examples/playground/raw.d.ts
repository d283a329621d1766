/** A file as it is written: what Vite makes of this ending. */
declare module '*?raw' {
  const text: string;
  export default text;
}
