/** RxJS 7.0 names no types in its `exports`; what is used of it is as today's. */
declare module 'rxjs70' {
  export * from 'rxjs';
}
